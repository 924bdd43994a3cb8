import { hasAtMostCharacters } from '../../core/characters.ts';
import { ApiError } from '../api-error.ts';

export const maxNameLength = 255;

// Controls, line and paragraph separators, and what changes the reading order or cannot be seen.
// oxlint-disable-next-line no-control-regex
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

/** What a name may be, for messages. */
export const plainNameRule = `1 to ${maxNameLength} characters that can be seen, none of them at the ends a space`;

/** True for a name that looks like what it is, wherever it is shown, and is stored as it came. */
export function isPlainName(text: string): boolean {
  return (
    text.length > 0 &&
    hasAtMostCharacters(text, maxNameLength) &&
    text.trim() === text &&
    text.isWellFormed() &&
    !unseen.test(text)
  );
}

/** Throws `ApiError` 400. */
export function checkPlainName(thing: 'workspace' | 'connector', name: string): void {
  if (isPlainName(name)) return;
  throw new ApiError(400, `Expected as the name of a ${thing} ${plainNameRule}.`, {
    field: 'name',
    errorCode: 'invalid_name',
  });
}

/** For look-ups in any case. */
export function foldedName(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

import { createHash } from 'node:crypto';

const maxBaseBytes = 150;
const maxExtensionBytes = 20;
/** A longer name is not worth a search. */
const maxChars = 4_000;
/** Control, invisible and text-direction characters, Unicode line ends, private and unassigned characters. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;
/** Characters with a meaning to Windows. Path separators are removed before. */
const special = /[<>:"|?*]/g;
const reserved = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])\s*(\.|$)/i;

/**
 * Starts with 16 hex digits of the key's hash, so that no two records share a name. The service's name follows as far
 * as it is safe on every system. At most 167 bytes.
 */
export function safeFileName(keyText: string, name: string | null): string {
  return `${keyDigits(keyText)}-${safeBase(name ?? '')}`;
}

export function keyDigits(keyText: string): string {
  return createHash('sha256').update(keyText).digest('hex').slice(0, 16);
}

/** Digits of the key in the name of a stored file; null for any other name. */
export function digitsOf(file: string): string | null {
  return /^([0-9a-f]{16})-/.exec(file)?.[1] ?? null;
}

/** `file` where nothing harmless remains. */
export function safeBase(name: string): string {
  const visible = name.slice(0, maxChars).toWellFormed().replace(unprintable, '').normalize('NFC');
  const last = visible.split(/[/\\]/).findLast((part) => withoutEdges(part) !== '') ?? '';
  const base = withoutEdges(last.replace(special, '_'));
  if (base === '') return 'file';
  return shortened(reserved.test(base) ? `_${base}` : base);
}

/** Windows drops dots and spaces at the end; a dot at the beginning hides the file. */
function withoutEdges(text: string): string {
  return text.replace(/^[\s.]+/, '').replace(/[\s.]+$/, '');
}

/** Cut between characters, with its extension kept. */
function shortened(base: string): string {
  if (Buffer.byteLength(base) <= maxBaseBytes) return base;
  const dot = base.lastIndexOf('.');
  const tail = dot > 0 && Buffer.byteLength(base.slice(dot)) <= maxExtensionBytes ? base.slice(dot) : '';
  let left = maxBaseBytes - Buffer.byteLength(tail);
  let head = '';
  for (const character of base) {
    left -= Buffer.byteLength(character);
    if (left < 0) break;
    head += character;
  }
  return `${withoutEdges(head)}${tail}`;
}

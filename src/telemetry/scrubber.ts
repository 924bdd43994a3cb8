import type { Secret } from '../core/secret.ts';

/** The last gate before anything is printed: replaces every secret it was told of, and bearer tokens of any origin. */
export interface Scrubber {
  /** Adds a secret, with the spellings it takes inside JSON and URLs. */
  readonly register: (secret: Secret) => void;
  readonly scrub: (text: string) => string;
}

const replacement = '[secret]';
const bearer = /\b(Bearer)\s+[^\s"'\\]+/gi;
/** Shorter ones would turn ordinary text into holes, and protect nothing that could not be guessed. */
const shortestSecret = 4;

export function createScrubber(): Scrubber {
  const spellings = new Set<string>();
  let longestFirst: readonly string[] = [];
  return {
    register: (secret) => {
      for (const spelling of spellingsOf(secret.reveal())) spellings.add(spelling);
      // A secret may contain another one: the longer goes first, or its rest would stay readable.
      longestFirst = [...spellings].sort((left, right) => right.length - left.length);
    },
    scrub: (text) => {
      let clean = text;
      for (const spelling of longestFirst) clean = clean.replaceAll(spelling, replacement);
      return clean.replace(bearer, `$1 ${replacement}`);
    },
  };
}

function spellingsOf(value: string): readonly string[] {
  if (value.length < shortestSecret) return [];
  return [
    value,
    JSON.stringify(value).slice(1, -1),
    encodeURIComponent(value.toWellFormed()),
    Buffer.from(value).toString('base64'),
    ...passwordOf(value),
  ];
}

/** A secret may be a whole URL (`redis://user:password@host`): its password is one by itself. */
function passwordOf(value: string): readonly string[] {
  if (!URL.canParse(value)) return [];
  const { password } = new URL(value);
  return password.length < shortestSecret ? [] : [password, decodeURIComponentOr(password)];
}

function decodeURIComponentOr(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // A stray percent sign: the text as written is all there is.
  }
}

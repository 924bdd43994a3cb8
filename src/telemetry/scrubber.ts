import { hideSecrets, isPlainWord, redacted, type Secret } from '../core/secret.ts';

/** RFC 6750's b64token; "Bearer <token>" and "Bearer authentication" are words about one. */
const bearer = /\b(Bearer)\s+([\w.~+/=-]+)/gi;

/** The last filter before output: replaces registered secrets, as `hideSecrets` does, and all bearer tokens. */
export type Scrubber = ReturnType<typeof createScrubber>;

export function createScrubber() {
  const spellings = new Set<string>();
  return {
    /** Adds a secret, with the spellings that `hideSecrets` does not know. */
    register: (secret: Secret): void => {
      for (const spelling of spellingsOf(secret.reveal())) spellings.add(spelling);
    },
    scrub: (text: string): string =>
      hideSecrets(text, [...spellings]).replace(bearer, (found, name: string, value: string) =>
        isPlainWord(value) ? found : `${name} ${redacted}`,
      ),
  };
}

function spellingsOf(value: string): readonly string[] {
  if (value === '') return [];
  return [value, Buffer.from(value).toString('base64'), ...passwordOf(value).flatMap(spellingsOf)];
}

/** A secret may be a whole URL (`redis://user:password@host`): its password is one by itself. */
function passwordOf(value: string): readonly string[] {
  if (!URL.canParse(value)) return [];
  const { password } = new URL(value);
  try {
    return password === '' ? [] : [password, decodeURIComponent(password)];
  } catch {
    return [password]; // A stray percent sign: the text as written is all there is.
  }
}

import { createRequire } from 'node:module';
import type * as Re2 from 're2js';

/** That of a host name is 253, that of a path 4,096. */
const maxTextLength = 4_096;

export type LinearPattern = ReturnType<typeof linearPattern>;

/**
 * A regular expression whose text is not this program's own: matched without backtracking, so that none can hold the
 * process. Look-around and back-references cannot be matched so. Throws `SyntaxError` for what is no pattern.
 */
export function linearPattern(pattern: string) {
  // Few commands meet such a pattern, so it is loaded where one is met. `as`: what the package exports.
  const { RE2JS } = createRequire(import.meta.url)('re2js') as typeof Re2;
  try {
    const program = RE2JS.compile(pattern);
    return {
      /** Whether the whole text matches. Never true of one above 4,096 characters. */
      test: (text: string): boolean => text.length <= maxTextLength && program.testExact(text),
      /** The texts that the named groups matched; null where the pattern does not match the whole text. */
      groups: (text: string): Readonly<Record<string, string | null>> | null => {
        const matcher = program.matcher(text);
        return text.length <= maxTextLength && matcher.matches() ? matcher.getNamedGroups() : null;
      },
      /** The work for a text is at most this times its length. Of `[a-z0-9-]{1,253}` about 500. */
      size: program.programSize(),
    };
  } catch (cause) {
    throw new SyntaxError('expected a regular expression', { cause });
  }
}

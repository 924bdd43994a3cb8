import { createRequire } from 'node:module';
import type * as Re2 from 're2js';

/** The longest text that is matched. A host name has at most 253 characters, a path 4,096. */
const maxTextLength = 4_096;

export type LinearPattern = ReturnType<typeof linearPattern>;

/**
 * A regular expression from a text that is not part of this program: matched without backtracking, so that none can
 * block the process. Look-around and back-references are not supported. Throws `SyntaxError` for an invalid pattern.
 */
export function linearPattern(pattern: string) {
  // Few commands use such a pattern, so the package is loaded on first use. `as`: the exports of the package.
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
      /**
       * Factor of the matching work: for a text it is at most this times its length. About 500 for `[a-z0-9-]{1,253}`.
       */
      size: program.programSize(),
    };
  } catch (cause) {
    throw new SyntaxError('expected a regular expression', { cause });
  }
}

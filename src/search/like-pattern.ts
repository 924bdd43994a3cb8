/** One sign of a pattern: a character as it is, any one (`_`), or any run (`%`). */
type Sign = { readonly kind: 'literal'; readonly text: string } | { readonly kind: 'one' | 'run' };

/** A `like` pattern taken apart. */
export type LikePattern = ReturnType<typeof likePattern>;

/** `\` takes the next sign as it is; at the end it stands for itself. Runs of `%` are one. */
export function likePattern(pattern: string) {
  const signs: Sign[] = [];
  /** Between signs for anything. */
  const literals = [''];
  const characters = Array.from(pattern);
  for (let index = 0; index < characters.length; index += 1) {
    const character = characters[index] ?? '';
    if (character === '%' || character === '_') {
      const isAgain = character === '%' && signs.at(-1)?.kind === 'run';
      if (!isAgain) signs.push({ kind: character === '%' ? 'run' : 'one' });
      literals.push('');
    } else {
      if (character === '\\') index += 1;
      const text = characters[index] ?? character;
      signs.push({ kind: 'literal', text });
      literals.push(`${literals.pop() ?? ''}${text}`);
    }
  }
  return {
    signs,
    /** Every text that matches begins with it. */
    prefix: literals[0] ?? '',
    /** The prefix is the only text that matches. */
    isExact: literals.length === 1,
    /** Longest text that every text that matches has in it. */
    longest: literals.reduce((longest, one) => (one.length > longest.length ? one : longest)),
  };
}

/** Without regular expressions: two marks that only move forward, so the work is bounded by both lengths. */
export function isLike({ signs }: LikePattern, text: string): boolean {
  const characters = Array.from(text);
  let at = 0;
  let sign = 0;
  let runAt = -1;
  let retryAt = 0;
  while (at < characters.length) {
    const wanted = signs[sign];
    if (wanted?.kind === 'run') {
      runAt = sign;
      retryAt = at;
      sign += 1;
    } else if (wanted !== undefined && (wanted.kind === 'one' || textOf(wanted) === characters[at])) {
      at += 1;
      sign += 1;
    } else if (runAt >= 0) {
      retryAt += 1;
      at = retryAt;
      sign = runAt + 1;
    } else {
      return false;
    }
  }
  return signs.slice(sign).every(({ kind }) => kind === 'run');
}

function textOf(sign: Sign): string {
  return sign.kind === 'literal' ? sign.text : '';
}

/** One sign of a pattern: a character as it is, any one (`_`), or any run (`%`). */
type Sign = { readonly kind: 'literal'; readonly text: string } | { readonly kind: 'one' | 'run' };

/** A `like` pattern taken apart. */
export type LikePattern = ReturnType<typeof likePattern>;

/** `\` takes the next sign as it is; at the end it stands for itself. Runs of `%` are one. */
export function likePattern(pattern: string) {
  const signs: Sign[] = [];
  const characters = Array.from(pattern);
  for (let index = 0; index < characters.length; index += 1) {
    const character = characters[index] ?? '';
    if (character === '%') {
      if (signs.at(-1)?.kind !== 'run') signs.push({ kind: 'run' });
    } else if (character === '_') {
      signs.push({ kind: 'one' });
    } else {
      if (character === '\\') index += 1;
      signs.push({ kind: 'literal', text: characters[index] ?? character });
    }
  }
  const end = signs.findIndex(({ kind }) => kind !== 'literal');
  const prefix = (end < 0 ? signs : signs.slice(0, end)).map((sign) => textOf(sign)).join('');
  return {
    signs,
    /** What every text that matches begins with. */
    prefix,
    /** `exact`: the prefix and nothing else; `prefix`: anything may follow it; `other`: more than that. */
    form: formOf(signs, end),
  };
}

/** The same pattern for SQLite's GLOB, which knows no other case folding than none and needs no setting for it. */
export function globOf({ signs }: LikePattern): string {
  return signs.map((sign) => globSign(sign)).join('');
}

/** The same pattern for LIKE of PostgreSQL, which refuses an escape at the end. */
export function likeOf({ signs }: LikePattern): string {
  return signs
    .map((sign) => {
      if (sign.kind === 'literal') return sign.text.replace(/[%_\\]/g, '\\$&');
      return sign.kind === 'run' ? '%' : '_';
    })
    .join('');
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

function formOf(signs: readonly Sign[], end: number): 'exact' | 'prefix' | 'other' {
  if (end < 0) return 'exact';
  return end === signs.length - 1 && signs[end]?.kind === 'run' ? 'prefix' : 'other';
}

function globSign(sign: Sign): string {
  switch (sign.kind) {
    case 'run':
      return '*';
    case 'one':
      return '?';
    case 'literal':
      return /[*?[]/.test(sign.text) ? `[${sign.text}]` : sign.text;
  }
}

function textOf(sign: Sign): string {
  return sign.kind === 'literal' ? sign.text : '';
}

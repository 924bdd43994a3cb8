/** `; did you mean "schedule"?` when one of the known names is close to `word`, else an empty text. */
export function suggestName(word: string, known: Iterable<string>): string {
  let best: string | null = null;
  // A third of the letters may differ: enough for a slip of the finger, too little for another word.
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(plain(word), plain(name));
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best === null ? '' : `; did you mean "${best}"?`;
}

/** `no such field: "nmae"; did you mean "name"?` */
export function noSuch(what: string, name: string, known: Iterable<string>): string {
  return `no such ${what}: ${JSON.stringify(name)}${suggestName(name, known)}`;
}

/** Names for a message: of many the first ones. */
export function firstNames(names: readonly string[], most = 20): string {
  const more = names.length > most ? ` and ${names.length - most} more` : '';
  return `${names.slice(0, most).join(', ')}${more}`;
}

/** `base_url`, `base-url` and `baseURL` are all the same slip. */
function plain(text: string): string {
  return text.toLowerCase().replaceAll(/[_-]/g, '').slice(0, 64);
}

function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const replaced = at(previous, column - 1) + (left[row - 1] === right[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, at(previous, column) + 1, at(current, column - 1) + 1));
    }
    previous = current;
  }
  return at(previous, right.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.MAX_SAFE_INTEGER;
}

/**
 * A message for an object whose `type` is none of these. It does not quote the value, which may be a secret at a wrong
 * place.
 */
export function expectedType(...types: readonly string[]): (issue: { readonly input?: unknown }) => string {
  return ({ input }) => {
    const type: unknown = typeof input === 'object' && input !== null ? Reflect.get(input, 'type') : null;
    const suggestion = typeof type === 'string' ? suggestName(type, types) : '';
    return `expected type: ${types.slice(0, -1).join(', ')} or ${types.at(-1)}${suggestion}`;
  };
}

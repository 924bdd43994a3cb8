/**
 * The values of a path's names, decoded; null: another path. A name takes one segment, whatever is in it: `..` and an
 * encoded slash are values, which no record has.
 */
export function matchPath(template: string, path: string): Readonly<Record<string, string>> | null {
  const wanted = template.split('/');
  const segments = path.split('/');
  if (wanted.length !== segments.length) return null;
  const values: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const segment = segments[at] ?? '';
    const name = /^\{(.+)\}$/.exec(part)?.[1];
    if (name === undefined) {
      if (part !== segment) return null;
    } else {
      if (segment === '') return null;
      values[name] = decoded(segment);
    }
  }
  return values;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not an encoding: then it is what it is.
    return segment;
  }
}

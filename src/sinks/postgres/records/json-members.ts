/**
 * The members of a JSON object's text, by name, each as the text that it is: nothing that is moved or left is written anew, so that no digit of a
 * number gets lost. Of a name that comes twice the last one counts. The text is JSON: the server has checked it.
 */
export function jsonMembers(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let depth = 0;
  let name: string | null = null;
  let start = 0;
  for (const { 0: token, index } of text.matchAll(tokens)) {
    if (token === '{' || token === '[') {
      depth += 1;
      if (depth === 1) start = index + 1;
    } else if (token === '}' || token === ']') {
      depth -= 1;
    } else if (depth === 1 && token === ':') {
      name = JSON.parse(text.slice(start, index)) as string;
      start = index + 1;
    }
    if (name !== null && ((depth === 1 && token === ',') || depth === 0)) {
      members.set(name, text.slice(start, index).trim());
      name = null;
    }
    if (depth === 1 && token === ',') start = index + 1;
  }
  return members;
}

/** Whole strings, so that what is inside them is not taken for structure. */
const tokens = /"(?:[^"\\]+|\\.)*"|[{}[\],:]/gs;

/** Null for no members. */
export function jsonObject(members: ReadonlyMap<string, string>): string | null {
  if (members.size === 0) return null;
  return `{${[...members].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
}

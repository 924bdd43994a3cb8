/** Whether a name matches the glob: `*` is any text, every other character is itself. In linear time for every glob. */
export function isLikeGlob(name: string, glob: string): boolean {
  const [first = '', ...rest] = glob.split('*');
  const last = rest.pop();
  if (last === undefined) return name === glob;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const text of rest) {
    const found = name.indexOf(text, at);
    if (found === -1) return false;
    at = found + text.length;
  }
  return at + last.length <= name.length && name.endsWith(last);
}

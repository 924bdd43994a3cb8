/** Characters as people count them in limits: code points, so that an emoji is one. Stops counting behind `most`. */
export function hasAtMostCharacters(text: string, most: number): boolean {
  if (text.length <= most) return true;
  return text.length <= 2 * most && Array.from(text).length <= most;
}

/** The first so many characters; never half of one. */
export function firstCharacters(text: string, count: number): string {
  return Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join('');
}

/** One of `titles`, numbered from the second round on: `Roadmap`, `Roadmap 2`. An empty title stays empty. */
export function titleAt(titles: readonly string[], index: number): string {
  const title = titles[index % titles.length] ?? '';
  const round = Math.floor(index / titles.length) + 1;
  return round === 1 || title === '' ? title : `${title} ${round}`;
}

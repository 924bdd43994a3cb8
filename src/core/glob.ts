/** What a glob stands for: `*` is any text, everything else is itself. */
export function globPattern(glob: string): RegExp {
  const texts = glob.split('*').map((text) => text.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${texts.join('.*')}$`);
}

/** Characters that storing, escaping or cutting may get wrong; lone surrogates apart. */
const odd = [
  '\0',
  '\uE000',
  '\uE0000',
  '\uE0001',
  '\u{1F600}',
  '\uFFFD',
  '\uFFFF',
  '\u2028',
  '\r\n',
  '\\',
  '\\.',
  '\\N',
  '\t',
  '"',
  "'",
  '$1',
  ':name',
  '{',
  '}',
  'é',
  'a',
  '0',
  '1',
  ' ',
];

/** A text of up to `most` of them. */
export function hostileText(random: () => number, most = 12): string {
  const length = Math.floor(random() * (most + 1));
  return Array.from({ length }, () => odd[Math.floor(random() * odd.length)] ?? '').join('');
}

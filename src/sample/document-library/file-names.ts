/**
 * As people and programs name files. Some are paths, reserved on some system, or hold signs that end a header, a line or a
 * text: whoever stores a file under its name has to survive all of them.
 */
const names: readonly string[] = [
  'Signed agreement (final) v2.pdf',
  'Überblick März.csv',
  'notes "draft", 100% done; really.txt',
  '../../etc/passwd',
  'CON',
  'two\r\nlines\u0000 and\ta \u001b[31mcolour\u0007.txt',
  'diagram.png',
  '週報 📝.txt',
  'archive 2024.zip',
  '..\\..\\Windows\\System32\\drivers\\etc\\hosts',
  'C:\\Users\\ada\\Desktop\\budget.csv',
  '/etc/shadow',
  'nul.txt',
  '.hidden',
  '..',
  ' spaces around .pdf ',
  'invoice\u202Efdp.txt',
  'e\u0301galite\u0301.txt',
  `${'a very long name '.repeat(20)}.pdf`,
  '?<>|*:.csv',
  'scan.png',
  "it's *here*'.txt",
];

/** A later file of one name is another file: nothing says that names differ. */
export function fileNameAt(index: number): string {
  return names[index % names.length] ?? 'file';
}

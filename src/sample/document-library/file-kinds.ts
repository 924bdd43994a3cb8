/** What a file is made of. */
export type FileKind = 'text' | 'csv' | 'png' | 'pdf' | 'zip' | 'binary';

const kindByExtension: readonly (readonly [string, FileKind])[] = [
  ['.txt', 'text'],
  ['.csv', 'csv'],
  ['.png', 'png'],
  ['.pdf', 'pdf'],
  ['.zip', 'zip'],
];

/** By the end of a file's name; a name that says nothing is of a file that says nothing. */
export function fileKindOf(name: string): FileKind {
  return kindByExtension.find(([extension]) => name.toLowerCase().endsWith(extension))?.[1] ?? 'binary';
}

export const contentTypes: Readonly<Record<FileKind, string>> = {
  text: 'text/plain; charset=utf-8',
  csv: 'text/csv',
  png: 'image/png',
  pdf: 'application/pdf',
  zip: 'application/zip',
  binary: 'application/octet-stream',
};

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Every file below a folder that holds the text, plain or in another spelling. */
export function filesWith(folder: string, text: string): readonly string[] {
  const bytes = Buffer.from(text);
  const spellings = [
    text,
    bytes.toString('base64').slice(0, -4),
    bytes.toString('hex'),
    encodeURIComponent(text),
    JSON.stringify(text).slice(1, -1),
  ];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => {
      const content = readFileSync(path);
      return spellings.some((spelling) => content.includes(spelling));
    });
}

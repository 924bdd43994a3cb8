import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';

const fixtures = new URL('../../fixtures/stored/', import.meta.url);

/** Every file below the folder, by its path in it, as one compressed file of the fixtures. */
export function packFolder(folder: string, name: string): void {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(folder, path)).isFile() && !/\.lock$|\.lock-journal$|-shm$/.test(path))
    .toSorted();
  const files = paths.map((path) => [path, readFileSync(join(folder, path)).toString('latin1')]);
  packJson(Object.fromEntries(files), name);
}

export function unpackFolder(name: string, folder: string): void {
  for (const [path, content] of Object.entries(unpackJson(name) as Readonly<Record<string, string>>)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, path), Buffer.from(content, 'latin1'), { mode: 0o600 });
  }
}

export function packText(text: string, name: string): void {
  writeFileSync(
    new URL(name, fixtures),
    brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } }),
  );
}

export function unpackText(name: string): string {
  return brotliDecompressSync(readFileSync(new URL(name, fixtures))).toString();
}

export function packJson(value: unknown, name: string): void {
  packText(JSON.stringify(value), name);
}

export function unpackJson(name: string): unknown {
  return JSON.parse(unpackText(name)) as unknown;
}

import { readFileSync } from 'node:fs';
import { programFile } from '../core/program-files.ts';

/** The version that package.json names. */
export function programVersion(): string {
  const { version } = JSON.parse(readFileSync(programFile('package.json'), 'utf8')) as { version: string };
  return version;
}

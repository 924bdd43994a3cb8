import { readFileSync } from 'node:fs';
import { programFile } from '../core/program-files.ts';

/** The version that package.json names; `unknown` where it names none. */
export function programVersion(): string {
  const text = readFileSync(programFile('package.json'), 'utf8');
  const parsed: unknown = JSON.parse(text);
  const hasVersion = typeof parsed === 'object' && parsed !== null && 'version' in parsed;
  return hasVersion && typeof parsed.version === 'string' ? parsed.version : 'unknown';
}

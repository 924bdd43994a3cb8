import { readFileSync } from 'node:fs';

/** The version that package.json names; `unknown` where it names none. The same from src/ and from dist/. */
export function programVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const parsed: unknown = JSON.parse(text);
  const hasVersion = typeof parsed === 'object' && parsed !== null && 'version' in parsed;
  return hasVersion && typeof parsed.version === 'string' ? parsed.version : 'unknown';
}

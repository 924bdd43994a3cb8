import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Runs once before all tests: those of whole processes run the built program, so it must not be older than its sources. */
export function setup(): void {
  const builtAt = existsSync('dist/main.js') ? statSync('dist/main.js').mtimeMs : 0;
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' });
  const isNew = files.every((file) => statSync(join('src', file)).mtimeMs <= builtAt);
  if (!isNew) execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
}

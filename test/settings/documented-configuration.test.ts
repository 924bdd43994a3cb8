import { readFileSync } from 'node:fs';
import { describe, expect } from 'vitest';
import { settingsJsonSchema } from '../../src/settings/settings-file.ts';
import { it, type ConfigFolder } from '../support/settings/config-folder.ts';

const document = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

describe('docs/configuration.md', () => {
  it('names every key that the config file may have', () => {
    const keys = keysOf(settingsJsonSchema());
    expect(keys.size).toBeGreaterThan(25);
    const missing = [...keys].filter(
      (key) => !document.includes(`\`${key}\``) && !document.includes(`## ${key}`),
    );
    expect(missing).toEqual([]);
  });

  it('shows the errors as the program reports them', () => {
    const [, errors = ''] = document.split('\n## Errors\n');
    const [, config = ''] = /```yaml\n([^]*?)```/.exec(errors) ?? [];
    const [, shown = ''] = /```text\n([^]*?)\n```/.exec(errors) ?? [];
    const problems = folder.problems(config).map((problem) => `connector-sync.yaml${problem}`);
    expect(problems.join('\n')).toBe(shown);
  });
});

/** Every property name of a JSON Schema, however deep. */
function keysOf(schema: unknown, found = new Set<string>()): ReadonlySet<string> {
  if (typeof schema !== 'object' || schema === null) return found;
  for (const [name, value] of Object.entries(schema)) {
    if (name === 'properties' && typeof value === 'object' && value !== null) {
      for (const key of Object.keys(value)) found.add(key);
    }
    keysOf(value, found);
  }
  return found;
}

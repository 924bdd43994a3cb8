import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { builtInDefinitionsFolder, parseDefinition } from '../../../src/definitions/load-definitions.ts';
import { changes } from '../changes.ts';

/** The file of a definition that comes with the program. */
export function builtInText(name: string): string {
  return readFileSync(path.join(builtInDefinitionsFolder, `${name}.yaml`), 'utf8');
}

/** What is wrong with a definition, as `path: message`. */
export function problemsIn(text: string): readonly string[] {
  return parseDefinition('changed.yaml', text).problems.map(({ path: at, message }) => `${at}: ${message}`);
}

/** A test for each change `from → to` of a definition: its problems contain the message. */
export function itRefuses(title: string, text: string, messages: Readonly<Record<string, string>>): void {
  it.each(changes(messages))(`${title}: %s`, (_change, from, to, expected) => {
    expect(text).toContain(from);
    expect(problemsIn(text.replace(from, () => to)).join('\n')).toContain(expected);
  });
}

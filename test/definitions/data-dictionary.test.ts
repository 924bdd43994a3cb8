import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { dataDictionary } from '../../src/definitions/describe-tables.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';

const definitions = [...loadDefinitions([builtInDefinitionsFolder]).values()];

describe.each(definitions.map((definition) => [definition.name, definition] as const))(
  'docs/data-dictionary/%s.md',
  (name, definition) => {
    const file = `docs/data-dictionary/${name}.md`;
    const text = dataDictionary(definition, `connector-sync definitions --dictionary ${name}`);

    it('is what the command prints', () => {
      if (process.env['UPDATE_DICTIONARIES'] === '1') writeFileSync(file, text);
      expect(readFileSync(file, 'utf8')).toBe(text);
    });

    it('says what every column means', () => {
      expect(text.split('\n').filter((line) => /^\| .*\|\s*\|$/.test(line))).toEqual([]);
    });

    it('describes every entity, in one line', () => {
      expect([...definition.entities.values()].filter(({ description }) => description === null)).toEqual([]);
      expect(text.split('\n').filter((line) => line.startsWith('## '))).toHaveLength(
        [...definition.entities.values()].flatMap(({ explodedTable }) =>
          explodedTable === null ? [1] : [1, 2],
        ).length,
      );
    });
  },
);

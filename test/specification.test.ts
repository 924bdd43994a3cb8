import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { builtInDefinitionsFolder, loadDefinitions } from '../src/definitions/load-definitions.ts';
import { servedDefinition } from '../src/definitions/served-definition.ts';

const lines = readFileSync('docs/internals/specification.md', 'utf8').split('\n');

interface Row {
  readonly statement: string;
  readonly where: readonly string[];
}

/**
 * `| statement | where | test |`; a line without a statement names one more test of the row above.
 * `test/guarantees.test.ts` looks for the tests.
 */
const rows: Row[] = [];
const unread: string[] = [];
for (const line of lines) {
  if (!line.startsWith('|') || /^\| (statement|-)/.test(line)) continue;
  const [, statement = '', where = '', test = ''] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
  if (statement !== '') {
    const paths = [...where.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path);
    rows.push({ statement, where: paths });
  }
  if (!/^`test\/[^`]+`: .+$/.test(test)) unread.push(line);
}

it('has a row with a test for every statement', () => {
  expect(rows.length).toBeGreaterThan(210);
  expect(unread).toEqual([]);
});

it('says of every statement where it is done, in files that exist', () => {
  expect(rows.filter(({ where }) => where.length === 0)).toEqual([]);
  expect(rows.flatMap(({ where }) => where).filter((path) => !existsSync(path))).toEqual([]);
});

it('names our choice wherever the specification shows nothing, and decisions that exist', () => {
  const silent = lines.filter((line) => line.includes('not shown') && !line.startsWith('`test/'));
  expect(silent.length).toBeGreaterThan(30);
  expect(silent.filter((line) => !line.includes('**Our choice:**'))).toEqual([]);
  const decisions = lines.flatMap((line) => [...line.matchAll(/\]\((decisions\/[^)]*)\)/g)]);
  expect(decisions.length).toBeGreaterThan(5);
  expect(decisions.filter(([, path = '']) => !existsSync(`docs/internals/${path}`))).toEqual([]);
});

const operations = ['email-marketing', 'workspace-notes'].flatMap((name) => {
  const definition = loadDefinitions([builtInDefinitionsFolder]).get(name);
  if (definition === undefined) return [];
  return [...servedDefinition(definition).entities.values()].flatMap((entity) =>
    [...entity.actions].map(([action, { params }]) => ({
      entity: entity.name,
      action,
      params: [...params.keys()],
    })),
  );
});

it('has every action with all of its parameters', () => {
  const missing = operations.flatMap(({ entity, action, params }) => {
    const row = rows.find(({ statement }) =>
      new RegExp(`^\`(.*, )?${entity}(, .*)?\` \`${action}\``).test(statement),
    );
    const named = new Set(row?.statement.match(/\w+/g));
    return params.filter((param) => !named.has(param)).map((param) => `${entity} ${action} ${param}`);
  });
  expect(missing).toEqual([]);
});

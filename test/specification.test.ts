import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { builtInDefinitionsFolder, loadDefinitions } from '../src/definitions/load-definitions.ts';
import { quoteProblem } from './support/declared-tests.ts';

/** statement | where | test: title */
const rows = readFileSync('docs/specification.md', 'utf8')
  .split('\n')
  .flatMap((line) => {
    const [, statement, where, test] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const named = /^`(?<file>test\/[^`]+)`: (?<title>.+)$/.exec(test ?? '')?.groups;
    return statement === undefined || where === undefined || named === undefined
      ? []
      : [
          {
            statement,
            where: [...where.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path),
            file: named['file'] ?? '',
            title: (named['title'] ?? '').replaceAll('\\|', '|'),
          },
        ];
  });

it('has a row for every statement', () => {
  expect(rows.length).toBeGreaterThan(170);
  const lines = readFileSync('docs/specification.md', 'utf8').split('\n');
  const tableLines = lines.filter((line) => line.startsWith('|') && !/^\| (statement|-)/.test(line));
  expect(tableLines.filter((line) => !rows.some(({ statement }) => line.includes(statement)))).toEqual([]);
});

it.each(rows)('$statement', ({ where, file, title }) => {
  expect(where.length).toBeGreaterThan(0);
  expect(where.filter((path) => !existsSync(path))).toEqual([]);
  expect(quoteProblem(file, title)).toBeNull();
});

const operations = ['email-marketing', 'workspace-notes'].flatMap((name) => {
  const definition = loadDefinitions([builtInDefinitionsFolder]).get(name);
  return [...(definition?.entities.values() ?? [])].flatMap((entity) =>
    [...entity.actions].map(([action, { params }]) => ({
      entity: entity.name,
      action,
      params: [...params.keys()],
    })),
  );
});

it.each(operations)('$entity $action is there with all of its parameters', ({ entity, action, params }) => {
  const row = rows.find(({ statement }) =>
    new RegExp(`^\`(.*, )?${entity}(, .*)?\` \`${action}\``).test(statement),
  );
  const named = new Set(row?.statement.match(/\w+/g));
  expect(params.filter((param) => !named.has(param))).toEqual([]);
});

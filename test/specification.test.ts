import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { builtInDefinitionsFolder, loadDefinitions } from '../src/definitions/load-definitions.ts';
import { servedDefinition } from '../src/definitions/served-definition.ts';

const document = readFileSync('docs/internals/specification.md', 'utf8');

/** Without the line breaks inside it. `test/guarantees.test.ts` looks for the tests of each. */
const statements = [...document.matchAll(/^- \*\*[\d.]+\*\* ([^]*?)\n(?=\n|- )/gm)].map(([, text = '']) =>
  text.replaceAll(/\s+/g, ' '),
);

it('says of every section where its statements are implemented, in files that exist', () => {
  const sections = document.split(/^## /m).slice(1);
  const paths = sections.map((section) =>
    [...(/^Code: ([^]*?)\n\n/m.exec(section)?.[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, path = '']) => path),
  );
  expect(sections).toHaveLength(24);
  expect(sections.filter((_, index) => paths[index]?.length === 0)).toEqual([]);
  expect(paths.flat().filter((path) => !existsSync(path))).toEqual([]);
});

it('marks what the specification leaves open, and names decisions that exist', () => {
  expect(statements.filter((statement) => statement.includes('**Choice:** ')).length).toBeGreaterThan(60);
  const decisions = [...document.matchAll(/\]\((decisions\/[^)]*)\)/g)];
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
    const statement = statements.find((one) =>
      new RegExp(`^\`(.*, )?${entity}(, .*)?\` \`${action}\``).test(one),
    );
    const named = new Set(statement?.match(/\w+/g));
    return params.filter((param) => !named.has(param)).map((param) => `${entity} ${action} ${param}`);
  });
  expect(missing).toEqual([]);
});

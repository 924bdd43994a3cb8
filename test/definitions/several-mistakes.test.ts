import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { formatProblem } from '../../src/core/problems.ts';
import { builtInDefinitionsFolder, findDefinitions } from '../../src/definitions/load-definitions.ts';
import { parseYaml } from '../../src/definitions/read-yaml.ts';

const fixtures = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));
const tracker = readFileSync(path.join(fixtures, 'issue-tracker.yaml'), 'utf8');
const notes = readFileSync(path.join(builtInDefinitionsFolder, 'workspace-notes.yaml'), 'utf8');

/** With its anchors written out, so that each place stands for itself. */
const trackerData: unknown = JSON.parse(JSON.stringify(parseYaml('tracker', tracker).data));

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('a definition with mistakes of several kinds', () => {
  it('reports all of them, each with its line', () => {
    const problems = problemsOf(tracker, [
      ['title: Issue tracker\n', ''],
      ['id: 3f2c8a5e-', 'id: '],
      ['concurrency: 2', 'concurrency: many'],
      ['      name: string', '      name: text'],
      ['volatile: [author', 'volatil: [author'],
      ['key: [project_id, id]', 'key: [project_id, idd]'],
      ['sort: created }', 'sort: createt }'],
      ['entity: projects', 'entity: project'],
      ['entity: issues }', 'entity: isues }'],
    ]);
    expect(problems).toEqual([
      ':2: title: is missing; expected a string',
      ':3: id: expected a UUID',
      ':4: rateLimit.concurrency: expected a number, got a string',
      ':14: entities.projects.fields.name: expected one of string, integer, number, boolean, object, array, any, got "text"',
      ':53: entities.issues.volatil: unknown key; did you mean "volatile"?',
      ':51: entities.issues.key.1: no such field: "idd"; did you mean "id"?',
      ':78: entities.issues.order.params.sort: sort: expected one of created, updated, got "createt"; did you mean "created"?',
      ':80: entities.issues.parents.0.entity: no such entity: "project"; did you mean "projects"?',
      ':8: errors.1.entity: no such entity: "isues"; did you mean "issues"?',
    ]);
  });

  it.each<readonly [string, string, readonly (readonly [string | RegExp, string])[], string]>([
    ['fields', tracker, [[/fields:\n      id: string\n[^]*?(?=    key)/, 'fields: 5\n']], 'projects.fields'],
    ['actions', tracker, [[/actions:\n[^]*?(?=    pagination)/, 'actions: 5\n']], 'projects.actions'],
    ['parents', tracker, [[/parents:[^]*$/, 'parents: 5\n']], 'issues.parents'],
    [
      'one of the parents',
      tracker,
      [['params: { project_id: id }', 'params: { project_id: 5 }']],
      'parents.0.params.project_id',
    ],
    ['an order', tracker, [['params: { sort: created }', 'params: created']], 'issues.order.params'],
    ['a key of a get action', tracker, [['key: { project_id: id }', 'key: id']], 'actions.get.key'],
    ['a whole entity', tracker, [[/issues:\n[^]*$/, 'issues: 5\n']], 'issues'],
    ['the type of a field', tracker, [['      id: integer', '      id: number_']], 'issues.fields.id'],
    ['the flag of a tree', notes, [['has_children: boolean', 'has_children: bool']], 'has_children'],
    ['where a tree begins', notes, [['param: block_id', 'param: [block_id]']], 'recursive.param'],
  ])('reports nothing that depends on %s of a wrong type', (_, text, changes, expected) => {
    const problems = problemsOf(text, changes);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^:\\d+: entities\\.[a-z_.0-9]*${expected}: `));
  });

  it.each([5, [5]])('reports nothing else, wherever a value is replaced by %j', (wrong) => {
    const spurious = placesIn(trackerData).flatMap((place) => {
      const found = problemsOf(JSON.stringify(withValue(trackerData, place, wrong)), []);
      const beside = found.filter((problem) => !` ${problem}`.includes(` ${place.join('.')}`));
      return found.some((problem) => /, got an? (number|array)$/.test(problem)) ? beside : [];
    });
    expect(spurious).toEqual([]);
  });

  it('reports one problem of a value of a wrong type', () => {
    expect(problemsOf(tracker, [['contains: cursor is no longer valid', 'contains: []']])).toEqual([
      ':8: errors.0.contains: expected a string, got an array',
    ]);
  });

  it('reports the short form of a type as it was written', () => {
    expect(problemsOf(tracker, [['cursor: string', 'cursor: strin']])).toEqual([
      ':26: entities.projects.actions.list.params.cursor.type: expected one of string, integer, boolean, object, array, got "strin"; did you mean "string"?',
    ]);
  });

  it('also reports that its name is taken', () => {
    write(tracker.replace('title: Issue tracker\n', ''));
    const { problems } = findDefinitions([fixtures, folder]);
    expect(problems.map(({ path: place }) => place)).toEqual(['title', 'name']);
  });
});

describe('what is found beside broken files', () => {
  it('is every definition that nothing is wrong with, and which names may be missing', () => {
    write(tracker.replace('maxSize: 50', 'maxSize: 51'));
    const found = findDefinitions([builtInDefinitionsFolder, folder]);
    expect([...found.definitions.keys()]).toEqual(['document-library', 'email-marketing', 'workspace-notes']);
    expect(['issue-tracker', 'other'].map(found.mayBeBroken)).toEqual([true, false]);
  });

  it.each(['title: x', 'name: [', '5', 'name: 7'])('may have any name when a file says only "%s"', (text) => {
    write(text);
    expect(findDefinitions([folder]).mayBeBroken('anything')).toBe(true);
  });
});

function problemsOf(text: string, changes: readonly (readonly [string | RegExp, string])[]) {
  const changed = changes.reduce((before, [from, to]) => {
    const after = before.replace(from, to);
    expect(after).not.toBe(before);
    return after;
  }, text);
  const file = write(changed);
  return findDefinitions([folder]).problems.map((problem) => formatProblem(problem).replace(file, ''));
}

type Place = readonly string[];

function placesIn(value: unknown, at: Place = []): readonly Place[] {
  const inner = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return inner.flatMap(([name, part]) => [[...at, name], ...placesIn(part, [...at, name])]);
}

function withValue(data: unknown, [step = '', ...rest]: Place, value: unknown): unknown {
  const owner: object = typeof data === 'object' && data !== null ? structuredClone(data) : {};
  Reflect.set(owner, step, rest.length === 0 ? value : withValue(Reflect.get(owner, step), rest, value));
  return owner;
}

function write(text: string): string {
  const file = path.join(folder, 'changed.yaml');
  writeFileSync(file, text);
  return file;
}

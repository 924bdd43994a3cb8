import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { formatProblem } from '../../src/core/problems.ts';
import { builtInDefinitionsFolder, findDefinitions } from '../../src/definitions/load-definitions.ts';

const fixtures = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));
const tracker = readFileSync(path.join(fixtures, 'issue-tracker.yaml'), 'utf8');

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('a definition with mistakes of several kinds', () => {
  it('reports all of wrong shapes, each with its line', () => {
    const problems = problemsOf(tracker, [
      ['title: Issue tracker\n', ''],
      ['id: 3f2c8a5e-', 'id: '],
      ['concurrency: 2', 'concurrency: many'],
      ['      name: string', '      name: text'],
      ['volatile: [author', 'volatil: [author'],
      ['entity: projects', 'entity: project'],
    ]);
    expect(problems).toEqual([
      ':2: title: is missing; expected a string',
      ':3: id: expected a UUID',
      ':4: rateLimit.concurrency: expected a number, got a string',
      ':14: entities.projects.fields.name: expected one of string, integer, number, boolean, object, array, any, got "text"',
      ':53: entities.issues.volatil: unknown key; did you mean "volatile"?',
    ]);
  });

  it('reports all of parts that do not fit together, once their shapes are right', () => {
    const problems = problemsOf(tracker, [
      ['key: [project_id, id]', 'key: [project_id, idd]'],
      ['sort: created }', 'sort: createt }'],
      ['entity: projects', 'entity: project'],
      ['entity: issues }', 'entity: isues }'],
    ]);
    expect(problems).toEqual([
      ':52: entities.issues.key.1: no such field: "idd"; did you mean "id"?',
      ':79: entities.issues.order.params.sort: sort: expected one of created, updated, got "createt"; did you mean "created"?',
      ':81: entities.issues.parents.0.entity: no such entity: "project"; did you mean "projects"?',
      ':9: errors.1.entity: no such entity: "isues"; did you mean "issues"?',
    ]);
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

  it('leaves the other definitions as they are', () => {
    write(tracker.replace('maxSize: 50', 'maxSize: 51'));
    const found = findDefinitions([builtInDefinitionsFolder, folder]);
    expect([...found.definitions.keys()]).toEqual(['document-library', 'email-marketing', 'workspace-notes']);
  });
});

function problemsOf(text: string, changes: readonly (readonly [string, string])[]) {
  const changed = changes.reduce((before, [from, to]) => {
    const after = before.replace(from, to);
    expect(after).not.toBe(before);
    return after;
  }, text);
  const file = write(changed);
  return findDefinitions([folder]).problems.map((problem) => formatProblem(problem).replace(file, ''));
}

function write(text: string): string {
  const file = path.join(folder, 'changed.yaml');
  writeFileSync(file, text);
  return file;
}

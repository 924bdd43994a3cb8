import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { formatProblem, ProblemsError } from '../../src/core/problems.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { pagingFile } from '../../src/definitions/upstream/upstream-file.ts';

const fixtures = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));
const tracker = readFileSync(path.join(fixtures, 'issue-tracker.yaml'), 'utf8');

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('loading definitions', () => {
  it('reads the definitions of several folders, by name', () => {
    const definitions = loadDefinitions([builtInDefinitionsFolder, fixtures]);
    expect([...definitions.keys()]).toEqual([
      'document-library',
      'email-marketing',
      'workspace-notes',
      'issue-tracker',
    ]);
  });

  it('fills in what a file leaves out', () => {
    const definition = loadDefinitions([fixtures]).get('issue-tracker');
    const projects = [...(definition?.entities.values() ?? [])][0];
    expect(projects).toMatchObject({
      fixedParams: {},
      only: null,
      order: null,
      parents: [],
      recursive: null,
      explode: null,
      explodedTable: null,
      volatile: [['open_issues']],
      table: { entity: 'projects', key: ['id'] },
    });
    expect(projects?.table.columns.map(({ name, type }) => `${name} ${type}`)).toEqual([
      'id string',
      'name string',
      'state string',
      'created_at string',
      'open_issues integer',
    ]);
    expect(projects?.actions.get('list')?.params.get('cursor')).toEqual({
      type: 'string',
      required: false,
      enum: null,
      default: null,
      min: null,
      max: null,
      aboveMax: 'refuse',
    });
    expect(projects?.actions.get('get')?.key).toEqual(new Map([['project_id', 'id']]));
  });

  it('reads only files that end in .yaml or .yml', () => {
    write('tracker.yml', tracker);
    write('notes.txt', 'no: [yaml');
    expect([...loadDefinitions([folder]).keys()]).toEqual(['issue-tracker']);
  });

  it('reads a folder that is named twice once', () => {
    expect(loadDefinitions([fixtures, `${fixtures}/`]).size).toBe(loadDefinitions([fixtures]).size);
  });

  it('hashes the content, not the layout', () => {
    const hash = (text: string): string | undefined => {
      write('tracker.yaml', text);
      return loadDefinitions([folder]).get('issue-tracker')?.contentHash;
    };
    const before = hash(tracker);
    expect(before).toMatch(/^[0-9a-f]{64}$/);
    expect(hash(`# another comment\n${tracker.replace('key: [id]', 'key:\n      - id')}`)).toBe(before);
    expect(
      hash(
        tracker.replace('limit: { type: integer, min: 1, max: 50', 'limit: { type: integer, min: 2, max: 50'),
      ),
    ).not.toBe(before);
  });

  it('hashes nothing that reading does not depend on', () => {
    const hash = (text: string): string | undefined => {
      write('tracker.yaml', text);
      return loadDefinitions([folder]).get('issue-tracker')?.contentHash;
    };
    const before = hash(tracker);
    const known = tracker
      .replace(/^title: .*$/m, 'title: Another title\naliases: [Trackly]')
      .replace(/^rateLimit/m, 'credentials: [{ title: A key, fields: { key: {} } }]\nrateLimit')
      .replace(
        'key: [id]',
        'searchable: { id: string }\n    whole: [name, state]\n    totals: ignore\n    key: [id]',
      )
      .replace('- entity: projects', '- entity: projects\n        childCount: [open_issues]');
    expect(known.length).toBeGreaterThan(tracker.length + 110);
    expect(hash(known)).toBe(before);
  });

  it('keeps the content hash of a definition that does not say how its numbered pages end', () => {
    const page = { kind: 'page', param: 'page', first: 1 };
    expect(pagingFile().parse(page)).toStrictEqual({ ...page, total: null });
    const said = { ...page, total: null, fixed: true, end: { status: 404 } };
    expect(pagingFile().parse(said)).toStrictEqual(said);
  });

  it('refuses two files with one name and says where the other is', () => {
    copyFileSync(path.join(fixtures, 'issue-tracker.yaml'), path.join(folder, 'other.yaml'));
    expect(problemsOf([fixtures, folder])).toEqual([
      `${path.join(folder, 'other.yaml')}:2: name: the definition issue-tracker is already in ${path.join(fixtures, 'issue-tracker.yaml')}; rename one of them`,
    ]);
  });

  it('says which folder is missing', () => {
    expect(problemsOf([path.join(folder, 'nowhere')])[0]).toMatch(
      /nowhere: expected a folder of definitions: ENOENT/,
    );
  });

  it('reports everything that is wrong in all files at once', () => {
    write('a.yaml', tracker.replace('key: [id]', 'key: [idd]'));
    write('b.yaml', 'name: [');
    write(
      'c.yaml',
      tracker.replace('title: Issue tracker\n', '').replace('name: issue-tracker', 'name: other'),
    );
    const problems = problemsOf([folder]);
    expect(problems).toHaveLength(3);
    expect(problems[0]).toMatch(
      /a\.yaml:\d+: entities\.projects\.key\.0: no such field: "idd"; did you mean "id"\?$/,
    );
    expect(problems[1]).toMatch(/b\.yaml:1: invalid YAML/);
    expect(problems[2]).toMatch(/c\.yaml:\d+: title: is missing; expected a string$/);
  });
});

describe('a definition is refused', () => {
  it.each([
    [
      'with an unknown key',
      'volatile: [open_issues]',
      'volatil: [open_issues]',
      'entities.projects.volatil: unknown key; did you mean "volatile"?',
    ],
    [
      'with a type that does not exist',
      'name: string',
      'name: text',
      'entities.projects.fields.name: expected one of string, integer, number, boolean, object, array, any, got "text"',
    ],
    [
      'with a field that starts with an underscore',
      '      name: string',
      '      _name: string',
      'entities.projects.fields._name: expected lower-case words',
    ],
    [
      'with a field in capitals',
      '      name: string',
      '      Name: string',
      'entities.projects.fields.Name: expected lower-case words',
    ],
    [
      'with the name of a system column of PostgreSQL',
      '      name: string',
      '      xmin: string',
      'entities.projects.fields.xmin: every table of PostgreSQL has a column xmin: declare xmin_2',
    ],
    [
      'with a reserved name',
      '      name: string',
      '      constructor: string',
      'constructor: this name is reserved',
    ],
    [
      'with a key of an object',
      'key: [project_id, id]',
      'key: [project_id, author]',
      'entities.issues.key.1: expected a string or integer field, author is of type object',
    ],
    [
      'with a field both stored and ignored',
      'ignored: [_self]',
      'ignored: [name]',
      'entities.projects.ignored.0: name is declared as a field',
    ],
    [
      'with a volatile path of nothing',
      'volatile: [author.avatar_url]',
      'volatile: [autor.avatar_url]',
      'entities.issues.volatile.0: no such field: "autor"; did you mean "author"?',
    ],
    [
      'with a volatile key',
      'volatile: [author.avatar_url]',
      'volatile: [id]',
      'entities.issues.volatile.0: id is part of the key',
    ],
    [
      'with an order by nothing',
      'field: created_at',
      'field: create_at',
      'entities.issues.order.field: no such field: "create_at"; did you mean "created_at"?',
    ],
    [
      'with an order that the service does not know',
      'sort: created }',
      'sort: createt }',
      'entities.issues.order.params.sort: sort: expected one of created, updated, got "createt"; did you mean "created"?',
    ],
    [
      'with paging by nothing',
      'tokenParam: cursor',
      'tokenParam: curser',
      'entities.projects.pagination.tokenParam: expected a list parameter of type string; curser is not declared',
    ],
    [
      'with larger pages than allowed',
      'maxSize: 50',
      'maxSize: 51',
      'entities.projects.pagination.maxSize: expected at most 50, the max of limit',
    ],
    [
      'with a default beyond the limits',
      'default: 20',
      'default: 51',
      'entities.projects.actions.list.params.limit.default: default: expected at most 50, got 51',
    ],
    [
      'without list',
      '      list:\n        params:\n          cursor',
      '      context_store_search:\n        params:\n          cursor',
      'entities.projects.actions: is missing list',
    ],
    [
      'with a parent that does not exist',
      'entity: projects',
      'entity: project',
      'entities.issues.parents.0.entity: no such entity: "project"; did you mean "projects"?',
    ],
    ['with itself as parent', 'entity: projects', 'entity: issues', 'parents form a cycle: issues -> issues'],
    [
      'with a parameter that no parent fills',
      'params: { project_id: id }',
      'params: {}',
      'entities.issues.parents.0.params: nothing fills the required list parameter project_id',
    ],
    [
      'with an optional parameter filled by the parent',
      'params: { project_id: id }',
      'params: { project_id: id, state: state }',
      'entities.issues.parents.0.params.state: expected a required list parameter',
    ],
    [
      'with a field that the parent lacks',
      'params: { project_id: id }',
      'params: { project_id: idd }',
      'entities.issues.parents.0.params.project_id: no such field of projects: "idd"; did you mean "id"?',
    ],
    [
      'with a condition on nothing',
      'field: state, values',
      'field: status, values',
      'entities.issues.parents.0.when.0.field: no such field of projects: "status"',
    ],
    [
      'with an injected field that is not declared',
      'inject: { project_id: project_id }',
      'inject: { project: project_id }',
      'entities.issues.parents.0.inject.project: no such field',
    ],
    [
      'with an injected value from nowhere',
      'inject: { project_id: project_id }',
      'inject: { project_id: state }',
      'entities.issues.parents.0.inject.project_id: expected a parameter that this parent fills (project_id), got state',
    ],
    [
      'with a get key of nothing',
      'issue_id: id }',
      'issue_id: number }',
      'entities.issues.actions.get.key.issue_id: no such field: "number"',
    ],
    [
      'with half a get key',
      'key: { project_id: project_id, issue_id: id }',
      'key: { issue_id: id }',
      'entities.issues.actions.get.key: is missing project_id',
    ],
    [
      'with an error pattern for nothing',
      'entity: issues }',
      'entity: isues }',
      'errors.1.entity: no such entity: "isues"; did you mean "issues"?',
    ],
    [
      'with a name in capitals',
      'name: issue-tracker',
      'name: IssueTracker',
      'name: expected lower-case words of letters and digits joined by _ or -',
    ],
    ['with an id that is no UUID', 'id: 3f2c8a5e-', 'id: ', 'id: expected a UUID'],
  ])('%s', (_, from, to, expected) => {
    expect(tracker).toContain(from);
    write('tracker.yaml', tracker.replace(from, to));
    const problems = problemsOf([folder]);
    expect(problems.map((problem) => problem.replace(/^.*?tracker\.yaml:\d+: /, '')).join('\n')).toContain(
      expected,
    );
    expect(problems[0]).toMatch(/tracker\.yaml:\d+: /);
  });

  it('with a cycle of parents, which it spells out', () => {
    const parents =
      '\n    parents:\n      - entity: issues\n        params: { cursor: id }\n    pagination: &byCursor';
    write('tracker.yaml', tracker.replace('\n    pagination: &byCursor', parents));
    expect(problemsOf([folder]).join('\n')).toContain('parents form a cycle: projects -> issues -> projects');
  });

  it('with two tables of one name', () => {
    const explode =
      '    explode: { field: labels, into: projects, carry: [project_id, id], fields: { name: string }, key: [project_id, id, name] }\n    ignored';
    write('tracker.yaml', tracker.replace(/(issues:[^]*?)    ignored/, `$1${explode}`));
    expect(problemsOf([folder]).join('\n')).toContain(
      'explode.into: another table is already named projects',
    );
  });
});

function write(name: string, text: string): void {
  writeFileSync(path.join(folder, name), text);
}

function problemsOf(folders: readonly string[]): readonly string[] {
  try {
    loadDefinitions(folders);
  } catch (error) {
    if (error instanceof ProblemsError) {
      expect(error.code).toBe('DEFINITION_INVALID');
      return error.problems.map(formatProblem);
    }
    throw error;
  }
  throw new Error('expected problems, got definitions');
}

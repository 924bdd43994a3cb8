import { execFile } from 'node:child_process';
import {
  copyFileSync,
  readFileSync,
  writeFileSync,
  appendFileSync,
  cpSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import path, { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { formatProblem, ProblemsError } from '../../src/core/problems.ts';
import { buildDefinition } from '../../src/definitions/definition.ts';
import {
  withoutYamlEntry,
  withYamlEntry,
  withYamlList,
  withYamlMember,
} from '../../src/definitions/edit-yaml.ts';
import {
  builtInDefinitionsFolder,
  loadDefinitions,
  parseDefinition,
  prepareDefinitions,
  type PreparedDefinitions,
} from '../../src/definitions/load-definitions.ts';
import { parseYaml, readYaml } from '../../src/definitions/read-yaml.ts';
import { itRefuses, problemsIn } from '../support/definitions/changed-definition.ts';
import { it } from '../support/it.ts';

const fixtures = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));
const tracker = readFileSync(path.join(fixtures, 'issue-tracker.yaml'), 'utf8');

describe('load definitions', () => {
  let folder: string;
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  describe('loading definitions', () => {
    it('reads the definitions of several folders, by name', () => {
      const definitions = loadDefinitions([builtInDefinitionsFolder, fixtures]);
      expect([...definitions.keys()]).toEqual([
        'calendly',
        'chargebee',
        'document-library',
        'email-marketing',
        'freshdesk',
        'github',
        'gitlab',
        'pipedrive',
        'stripe',
        'woocommerce',
        'workspace-notes',
        'zendesk',
        'issue-tracker',
      ]);
    });

    it('fills in what a file leaves out', () => {
      const definition = loadDefinitions([fixtures]).get('issue-tracker');
      const projects = [...(definition?.entities.values() ?? [])][0];
      expect(projects).toMatchObject({
        fixedParams: {},
        only: [],
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

    const hash = (text: string): string | undefined =>
      parseDefinition('tracker.yaml', text).definition?.contentHash;

    it('hashes the content, not the layout', () => {
      const before = hash(tracker);
      expect(before).toMatch(/^[0-9a-f]{64}$/);
      expect(hash(`# another comment\n${tracker.replace('key: [id]', 'key:\n      - id')}`)).toBe(before);
      expect(
        hash(
          tracker.replace(
            'limit: { type: integer, min: 1, max: 50',
            'limit: { type: integer, min: 2, max: 50',
          ),
        ),
      ).not.toBe(before);
    });

    it('hashes nothing that reading does not depend on', () => {
      const before = hash(tracker);
      const known = tracker
        .replace(/^title: .*$/m, 'title: Another title\naliases: [Trackly]')
        .replace(/^rateLimit/m, 'credentials: [{ title: A key, fields: { key: {} } }]\nrateLimit')
        .replace(
          'key: [id]',
          'searchable: { id: string }\n    whole: [name, state]\n    totals: ignore\n    key: [id]',
        );
      expect(known.length).toBeGreaterThan(tracker.length + 110);
      expect(hash(known)).toBe(before);
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
    itRefuses('with a change', tracker, {
      'volatile: [open_issues] → volatil: [open_issues]':
        'entities.projects.volatil: unknown key; did you mean "volatile"?',
      'name: string → name: text':
        'entities.projects.fields.name: expected one of string, integer, number, boolean, object, array, any, got "text"',
      '      name: string →       _name: string': 'entities.projects.fields._name: expected lower-case words',
      '      name: string →       Name: string': 'entities.projects.fields.Name: expected lower-case words',
      '      name: string →       xmin: string':
        'entities.projects.fields.xmin: every table of PostgreSQL has a column xmin: declare xmin_2',
      '      name: string →       constructor: string': 'constructor: this name is reserved',
      'key: [project_id, id] → key: [project_id, author]':
        'entities.issues.key.1: expected a string or integer field, author is of type object',
      'ignored: [_self] → ignored: [name]': 'entities.projects.ignored.0: name is declared as a field',
      'volatile: [author.avatar_url] → volatile: [autor.avatar_url]':
        'entities.issues.volatile.0: no such field: "autor"; did you mean "author"?',
      'volatile: [author.avatar_url] → volatile: [id]': 'entities.issues.volatile.0: id is part of the key',
      'field: created_at → field: create_at':
        'entities.issues.order.field: no such field: "create_at"; did you mean "created_at"?',
      'sort: created } → sort: createt }':
        'entities.issues.order.params.sort: sort: expected one of created, updated, got "createt"; did you mean "created"?',
      'tokenParam: cursor → tokenParam: curser':
        'entities.projects.pagination.tokenParam: no such list parameter: "curser"; did you mean "cursor"?',
      'maxSize: 50 → maxSize: 51':
        'entities.projects.pagination.maxSize: expected at most 50, the max of limit',
      'default: 20 → default: 51':
        'entities.projects.actions.list.params.limit.default: default: expected at most 50, got 51',
      '      list:\n        params:\n          cursor →       context_store_search:\n        params:\n          cursor':
        'entities.projects.actions: is missing list',
      'entity: projects → entity: project':
        'entities.issues.parents.0.entity: no such entity: "project"; did you mean "projects"?',
      'entity: projects → entity: issues': 'expected issues above issues in the file: parents come before',
      'params: { project_id: id } → params: {}':
        'entities.issues.parents.0.params: nothing fills the required list parameter project_id',
      'params: { project_id: id } → params: { project_id: id, state: state }':
        'entities.issues.parents.0.params.state: expected a required list parameter',
      'params: { project_id: id } → params: { project_id: idd }':
        'entities.issues.parents.0.params.project_id: no such field of projects: "idd"; did you mean "id"?',
      'field: state, values → field: status, values':
        'entities.issues.parents.0.when.0.field: no such field of projects: "status"',
      'inject: { project_id: project_id } → inject: { project: project_id }':
        'entities.issues.parents.0.inject.project: no such field',
      'inject: { project_id: project_id } → inject: { project_id: state }':
        'entities.issues.parents.0.inject.project_id: expected a parameter that this parent fills (project_id), got state',
      'issue_id: id } → issue_id: number }':
        'entities.issues.actions.get.key.issue_id: no such field: "number"',
      'key: { project_id: project_id, issue_id: id } → key: { issue_id: id }':
        'entities.issues.actions.get.key: is missing project_id',
      'entity: issues } → entity: isues }':
        'errors.1.entity: no such entity: "isues"; did you mean "issues"?',
      'name: issue-tracker → name: IssueTracker':
        'name: expected lower-case words of letters and digits joined by _ or -',
      'id: 3f2c8a5e- → id: ': 'id: expected a UUID',
      'key: [id] → key: [id]\n    rename: { tags: labels }': 'projects.rename.tags: no such field: "labels"',
      'key: [id] → key: [id]\n    rename: { label: name, title: name }':
        'projects.rename.title: name has two names',
    });

    it('with a cycle of parents, which no order can have', () => {
      const parents =
        '\n    parents:\n      - entity: issues\n        params: { cursor: id }\n    pagination: &byCursor';
      expect(problemsIn(tracker.replace('\n    pagination: &byCursor', parents)).join('\n')).toContain(
        'expected issues above projects in the file',
      );
    });

    it('with two tables of one name', () => {
      const explode =
        '    explode: { field: labels, into: projects, carry: [project_id, id], fields: { name: string }, key: [project_id, id, name] }\n    ignored';
      expect(problemsIn(tracker.replace(/(issues:[^]*?)    ignored/, `$1${explode}`)).join('\n')).toContain(
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
});

describe('a definition with mistakes of several kinds', () => {
  it('reports all of wrong shapes, each with its line', () => {
    const problems = problemsWith([
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
    const problems = problemsWith([
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
});

/** Of the tracker with these changes, with their lines. */
function problemsWith(changed: readonly (readonly [string, string])[]): readonly string[] {
  const text = changed.reduce((before, [from, to]) => {
    expect(before).toContain(from);
    return before.replace(from, to);
  }, tracker);
  return parseDefinition('', text).problems.map(formatProblem);
}

describe('reading YAML', () => {
  it('knows the line of every key and element, through anchors too', () => {
    const yaml = parseYaml('x.yaml', 'a: &a\n  b: 1\nc:\n  - x\n  - d: *a\n');
    expect(yaml.data).toEqual({ a: { b: 1 }, c: ['x', { d: { b: 1 } }] });
    expect(yaml.line([])).toBe(1);
    expect(yaml.line(['c', 1, 'd'])).toBe(5);
    expect(yaml.line(['c', 1, 'd', 'b'])).toBe(2);
  });

  it('gives the closest line for a place that does not exist', () => {
    const yaml = parseYaml('x.yaml', 'a:\n  b: 1\n');
    expect(yaml.line(['a', 'missing', 'deeper'])).toBe(1);
    expect(yaml.problem(['a', 'b', 0], 'no')).toEqual({
      file: 'x.yaml',
      line: 2,
      column: 3,
      path: 'a.b.0',
      message: 'no',
    });
  });

  it('takes dates, yes and no for texts', () => {
    expect(parseYaml('x.yaml', 'a: 2020-01-01\nb: yes\n1: no').data).toEqual({
      a: '2020-01-01',
      b: 'yes',
      1: 'no',
    });
  });

  it.each([
    ['broken syntax', 'a: [1', 1],
    ['a key twice', 'a: 1\na: 2', 2],
    ['a key twice inside another one', 'a: { b: 1, c: 2, b: 3 }', 1],
    ['a custom tag', 'a: !!js/function "x"', 1],
    ['two documents', 'a: 1\n---\nb: 1', 2],
    ['an alias without anchor', 'a: *b', 1],
    ['an anchor inside itself', 'a: &a\n  b: *a', 2],
    ['a key that reaches the prototype', 'a:\n  __proto__: { x: 1 }', 2],
    ['a key named prototype', 'prototype: 1', 1],
  ])('refuses %s', (_, text, line) => {
    const yaml = parseYaml('x.yaml', text);
    expect(yaml.data).toBeNull();
    expect(yaml.problems[0]).toMatchObject({ file: 'x.yaml', line });
  });

  it('refuses a bomb of aliases without unfolding it', () => {
    const levels = Array.from({ length: 12 }, (_, level) => {
      const use = level === 0 ? 'x' : `*l${level - 1}`;
      return `l${level}: &l${level} [${Array.from({ length: 9 }, () => use).join(', ')}]`;
    });
    const text = levels.join('\n');
    expect(parseYaml('x.yaml', text).problems).toEqual([
      expect.objectContaining({ message: expect.stringContaining('at most 2000000 values') as string }),
    ]);
  });

  it('takes an anchor that each of many entries uses', () => {
    const text = `a: &a { x: 1 }\nb:\n${'  - *a\n'.repeat(40_000)}`;
    const yaml = parseYaml('x.yaml', text);
    expect(yaml.problems).toEqual([]);
    expect(yaml.line(['b', 39_999, 'x'])).toBe(1);
  });

  it('says that a file is missing, too large or not in UTF-8', ({ folder }) => {
    expect(readYaml(path.join(folder, 'none.yaml')).problems[0]?.message).toMatch(/cannot be read: ENOENT/);
    writeFileSync(path.join(folder, 'large.yaml'), `# ${'x'.repeat(16 * 1024 * 1024)}`);
    expect(readYaml(path.join(folder, 'large.yaml')).problems[0]?.message).toMatch(/at most 16777216 bytes/);
    writeFileSync(path.join(folder, 'latin.yaml'), Buffer.from([0x61, 0x3a, 0x20, 0xe4]));
    expect(readYaml(path.join(folder, 'latin.yaml')).problems[0]?.message).toMatch(/cannot be read/);
  });
});

const config = `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  main: { type: sqlite, path: ./main.db }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
`;

describe('the definitions that a build has checked', () => {
  // Proves promise 19.1
  it('say the same as the YAML files', () => {
    const built = JSON.parse(readFileSync('dist/definitions.json', 'utf8')) as PreparedDefinitions;
    expect(built).toEqual(prepareDefinitions(builtInDefinitionsFolder));
    const definitions = Object.values(built).map(({ file, contentHash }) =>
      buildDefinition(file, contentHash),
    );
    const fromYaml = loadDefinitions([builtInDefinitionsFolder]);
    expect(new Map(definitions.map((definition) => [definition.name, definition]))).toEqual(fromYaml);
    expect(definitions.length).toBeGreaterThanOrEqual(3);
  });

  it('are refused by the build where anything is wrong with one', ({ folder }) => {
    writeFileSync(join(folder, 'broken.yaml'), 'name: broken\n');
    expect(() => prepareDefinitions(folder)).toThrow('broken.yaml');
  });

  describe('in an installed program', () => {
    let folder: string;

    it.beforeEach(({ folder: made }) => {
      folder = made;
      for (const name of ['dist', 'config/definitions', 'package.json']) {
        cpSync(name, join(folder, name), { recursive: true, filter: (path) => !/\.bench|\.test/.test(path) });
      }
      symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
      writeFileSync(join(folder, 'c.yaml'), config);
    });

    const status = (): Promise<{ code: number | null; output: string }> =>
      new Promise((done) => {
        const child = execFile(
          process.execPath,
          [join(folder, 'dist/main.js'), 'status', '--config', 'c.yaml'],
          { cwd: folder },
          (_, stdout, stderr) => done({ code: child.exitCode, output: stdout + stderr }),
        );
      });

    // Proves promise 19.1
    it('do not stand for a file that was changed since', async () => {
      expect(await status()).toMatchObject({ code: 0 });
      const file = join(folder, 'config/definitions/document-library.yaml');
      const line = readFileSync(file, 'utf8').split('\n').length;
      appendFileSync(file, 'unexpected: 1\n');
      const changed = await status();
      expect(changed.code).toBe(2);
      expect(changed.output).toContain(`document-library.yaml:${line}`);
    });

    // Proves promise 19.1
    it('may be missing: then the YAML files are read', async () => {
      rmSync(join(folder, 'dist/definitions.json'));
      expect(await status()).toMatchObject({
        code: 0,
        output: expect.stringContaining('not synced yet') as string,
      });
    });
  });
});

const entry = { definition: 'email-marketing', id: '12', schedule: { every: '1h' } };
const block = '  acme:\n    definition: email-marketing\n    id: "12"\n    schedule:\n      every: 1h\n';

describe('an entry added to a YAML file', () => {
  it('stands behind the last one, with every other byte as it was', () => {
    const before =
      "# Ours.\nsinks: { main:   {type: sqlite} }   # one\n\nconnectors:\n  # The letter.\n  news:\n    id: 'a'  # quoted\n    sink: main # last\n  # wiki:\n  #   id: b\n\npublish: {}\n";
    const after = withYamlEntry(before, 'connectors', 'acme', entry);
    expect(after).toBe(before.replace('main # last\n', `main # last\n${block}`));
    expect(withoutYamlEntry(after ?? '', 'connectors', 'acme')).toBe(before);
  });

  it.each([
    ['an empty file', '', `connectors:\n${block}`],
    ['no map', 'sinks: {}', `sinks: {}\n\nconnectors:\n${block}`],
    [
      'a blank line between entries',
      'connectors:\n  a: {}\n\n  b: {}\n\nwatch: true\n',
      `connectors:\n  a: {}\n\n  b: {}\n\n${block}\nwatch: true\n`,
    ],
    ['an empty map', 'connectors: {} # none\nwatch: true\n', `connectors: # none\n${block}watch: true\n`],
    ['nothing', 'connectors: # none\nwatch: true\n', `connectors: # none\n${block}watch: true\n`],
    ['no line end', 'connectors:\n  a: { id: b }', `connectors:\n  a: { id: b }\n${block.trimEnd()}`],
    ['an empty last value', 'connectors:\n  a:\nwatch: true\n', `connectors:\n  a:\n${block}watch: true\n`],
    [
      'another indentation',
      'connectors:\n    a:\n        id: |\n            b\n\n\nwatch: true\n',
      `connectors:\n    a:\n        id: |\n            b\n${block.replaceAll(/^ {2}/gm, '    ')}\n\nwatch: true\n`,
    ],
    [
      'lines of Windows',
      'connectors:\r\n  a: {}\r\n',
      `connectors:\n  a: {}\n${block}`.replaceAll('\n', '\r\n'),
    ],
  ])('is written where there is %s', (_what, before, after) => {
    expect(withYamlEntry(before, 'connectors', 'acme', entry)).toBe(after);
  });

  it('is refused where it would change something else', () => {
    expect(withYamlEntry('watch: true\n...\n', 'connectors', 'acme', entry)).toBeNull();
    expect(withYamlEntry('connectors: *all\nx: &all { a: {} }\n', 'connectors', 'acme', entry)).toBeNull();
    const json = '{\n  "connectors": {\n    "a": {"id": "b"}\n  }\n}\n';
    expect(withYamlEntry(json, 'connectors', 'acme', entry)).toBeNull();
    expect(withYamlEntry('connectors: { a: { id: b } }\n', 'connectors', 'acme', entry)).toBeNull();
  });
});

it.each([
  ['above the sinks', '# Ours.\nsinks: {}\n', '# Ours.\ndefinitions: ["./own"]\n\nsinks: {}\n'],
  ['between blocks', 'api: {}\n\nsinks: {}\n', 'api: {}\n\ndefinitions: ["./own"]\n\nsinks: {}\n'],
  ['at the end', 'api: {}\n# Where.\nsinks: {}', 'api: {}\n# Where.\nsinks: {}\n\ndefinitions: ["./own"]\n'],
  ['nowhere: it is there', 'definitions: []\nsinks: {}\n', null],
])('a list is added to a YAML file %s', (_where, before, after) => {
  expect(withYamlList(before, 'definitions', './own')).toBe(after);
});

describe('an entry removed from a YAML file', () => {
  it.each([
    ['alone', 'connectors: # ours\n  a:\n    id: b\nwatch: true\n', 'connectors: {} # ours\nwatch: true\n'],
    [
      'first',
      'connectors:\n  # One.\n  a:\n    id: b # b\n\n  c: {}\n',
      'connectors:\n  # One.\n\n  c: {}\n',
    ],
    [
      'between blank lines',
      'connectors:\n  c: {}\n\n  a: {}\n\n  d: {}\n',
      'connectors:\n  c: {}\n\n  d: {}\n',
    ],
    [
      'last',
      'connectors:\n  c: {}\n  a:\n    x:\n      - 1\n      - y: 2\n# End.\n',
      'connectors:\n  c: {}\n# End.\n',
    ],
  ])('leaves the others as they were: %s', (_where, before, after) => {
    expect(withoutYamlEntry(before, 'connectors', 'a')).toBe(after);
  });

  it('is refused where others refer to it, and where it is not there', () => {
    expect(withoutYamlEntry('connectors:\n  a: &a { id: b }\n  c: *a\n', 'connectors', 'a')).toBeNull();
    expect(withoutYamlEntry('connectors:\n  c: {}\n', 'connectors', 'a')).toBeNull();
    expect(withoutYamlEntry('watch: true\n', 'connectors', 'a')).toBeNull();
    for (const line of ['{ a: {}, c: {} }', '{ c: {}, a: {} }', '{ a: {} }']) {
      expect(withoutYamlEntry(`connectors: ${line}\n`, 'connectors', 'a')).toBeNull();
    }
  });
});

describe('a member of an entry of a YAML file', () => {
  const every = { every: '1d' };

  it.each([
    ['changed', 'a: { x: 1, s: { every: 1h }, y: 2 } # one', 'a: { x: 1, s: { every: 1d }, y: 2 } # one'],
    ['added', 'a: { x: 1 } # one', 'a: { x: 1, s: { every: 1d } } # one'],
    [
      'changed in a block',
      'a:\n    s: { every: 1h } # why\n    x: 1',
      'a:\n    s: { every: 1d } # why\n    x: 1',
    ],
    ['changed from a block', 'a:\n    s:\n      every: 1h\n    x: 1', 'a:\n    s: { every: 1d }\n    x: 1'],
    ['added to a block', 'a:\n    x: 1 # one\n  # b:', 'a:\n    x: 1 # one\n    s: { every: 1d }\n  # b:'],
  ])('is %s', (_how, before, after) => {
    const written = (text: string): string => `connectors:\n  ${text}\nwatch: true\n`;
    expect(withYamlMember(written(before), ['connectors', 'a', 's'], every)).toBe(written(after));
  });

  it.each([
    ['first', 'a: { s: { every: 1h }, y: 2 }', 'a: { y: 2 }'],
    ['last', 'a: { x: 1, s: { every: 1h } }', 'a: { x: 1 }'],
    ['in a block', 'a:\n    s: { every: 1h }\n    # two\n    x: 1', 'a:\n    # two\n    x: 1'],
    ['nowhere', 'a: { x: 1 }', 'a: { x: 1 }'],
  ])('is removed: %s', (_where, before, after) => {
    expect(withYamlMember(`connectors:\n  ${before}`, ['connectors', 'a', 's'], null)).toBe(
      `connectors:\n  ${after}`,
    );
  });

  it('is left where others refer to it, and where there is no such entry', () => {
    const anchors = 'connectors:\n  a: { s: &s { every: 1h } }\n  b: { s: *s }\n';
    expect(withYamlMember(anchors, ['connectors', 'a', 's'], every)).toBeNull();
    expect(withYamlMember('connectors: {}\n', ['connectors', 'a', 's'], every)).toBeNull();
    expect(withYamlMember('connectors: { a: *x }\n', ['connectors', 'a', 's'], every)).toBeNull();
  });
});

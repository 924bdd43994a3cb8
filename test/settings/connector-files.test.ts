import { describe, expect } from 'vitest';
import { it, type ConfigFolder } from '../support/settings/config-folder.ts';
import { isLong } from '../support/trials.ts';

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

const base = `api: { baseUrl: "https://api.example.test", clientId: me, clientSecret: "\${SECRET}" }
sinks:
  warehouse: { type: sqlite, path: ./warehouse.db }
  lake: { type: jsonl, directory: ./lake }
`;
const listed = `${base}connectors: [./connectors/*.yaml]\n`;
const entry = (name: string, more = ''): string =>
  `  ${name}: { definition: document-library, id: id-${name}, sink: warehouse${more} }\n`;

function problems(text: string): readonly string[] {
  return folder.problems(text).map((problem) => problem.replaceAll(`${folder.path}/`, ''));
}

describe('connectors in files of their own', () => {
  it.each([
    ['a pattern', '[./connectors/*.yaml]', ['one', 'two']],
    ['a folder', '[./connectors]', ['one', 'two', 'three']],
    ['a folder as a text', './connectors', ['one', 'two', 'three']],
    ['a file', '[./connectors/b.yaml]', ['two']],
    ['a pattern of folders', '["./*/a.yaml"]', ['one', 'deep']],
    ['several, each file once', '[./connectors/b.yaml, ./connectors/*.yaml]', ['two', 'one']],
    ['a pattern that the config file fits', '[./*.yaml, ./connectors/a.yaml]', ['one', 'beside']],
  ])('are found by %s', (_, where, names) => {
    folder.write('connectors/a.yaml', `connectors:\n${entry('one')}`);
    folder.write('connectors/b.yaml', `connectors:\n${entry('two')}`);
    folder.write('connectors/c.yml', `connectors:\n${entry('three')}`);
    folder.write('connectors/.hidden.yaml', 'no: [connectors');
    folder.write('more/a.yaml', `connectors:\n${entry('deep')}`);
    folder.write('beside.yaml', `connectors:\n${entry('beside')}`);
    const { connectors } = folder.load(`${base}connectors: ${where}\n`);
    expect([...connectors.keys()].toSorted()).toEqual(names.toSorted());
  });

  it('are reported with the file, line and path of their mistakes', () => {
    folder.write(
      'connectors/a.yaml',
      `connectors:\n${entry('one')}${entry('two', ', schedul: { every: 1h }')}`,
    );
    folder.write(
      'connectors/b.yaml',
      `connectors:\n  three:\n    definition: document-library\n    sink: warehouse\n    id: 3\n`,
    );
    expect(problems(listed)).toEqual([
      'connectors/a.yaml:3: connectors.two.schedul: unknown key; did you mean "schedule"?',
      'connectors/b.yaml:5: connectors.three.id: expected a string, got a number',
    ]);
  });

  it('may not have the name of one in another file', () => {
    folder.write('connectors/a.yaml', `connectors:\n${entry('one')}`);
    folder.write('connectors/b.yaml', `connectors:\n${entry('two')}${entry('one')}`);
    expect(problems(listed)).toEqual([
      `connectors/b.yaml:3: connectors.one: the connector one is already in connectors/a.yaml; rename one of them`,
    ]);
  });

  it('may not share the names of their tables with one in another file', () => {
    folder.write('connectors/a.yaml', `connectors:\n${entry('a-b')}`);
    folder.write('connectors/b.yaml', `connectors:\n${entry('a_b')}`);
    expect(problems(listed)).toEqual([
      'connectors/b.yaml:2: connectors.a_b: its tables would have the same names as those of a-b; rename one of them',
    ]);
  });

  it.each([
    [
      'connectors: [./none/*.yaml]',
      'config.yaml:6: connectors.0: expected a file, a folder of YAML files or a pattern',
    ],
    [
      'connectors: [./connectors/*.yml]',
      'config.yaml:6: connectors.0: expected a file, a folder of YAML files or a pattern',
    ],
    [
      'connectors: ./none.yaml',
      'config.yaml:6: connectors: expected a file, a folder of YAML files or a pattern',
    ],
    ['connectors: [1]', 'config.yaml:6: connectors.0: expected a string, got a number'],
    ['connectors: []', 'config.yaml:6: connectors: expected at least 1 elements, got 0'],
    ['connectors: 5', 'config.yaml:6: connectors: expected an object, got a number'],
  ])('are a mistake where there are none: %s', (text, problem) => {
    folder.write('connectors/a.yaml', `connectors:\n${entry('one')}`);
    const found = problems(`${base}# here\n${text}\n`).map((one) => one.replace(/^:/, 'config.yaml:'));
    expect(found).toHaveLength(1);
    expect(found[0]?.startsWith(problem)).toBe(true);
  });

  it.each([
    ['nothing', '', 'connectors/a.yaml: connectors: is missing; expected an object'],
    [
      'another key',
      'sinks: {}\nconnectors: {}\n',
      'connectors/a.yaml:1: sinks: unknown key; expected one of defaults, connectors',
    ],
    ['broken YAML', 'connectors: [1', 'connectors/a.yaml:1: invalid YAML'],
    [
      'a name twice',
      `connectors:\n${entry('one')}${entry('one')}`,
      'connectors/a.yaml:3: invalid YAML: the key "one" is there twice',
    ],
  ])('refuse a file with %s', (_, text, problem) => {
    folder.write('connectors/a.yaml', text);
    expect(problems(listed)[0]?.startsWith(problem)).toBe(true);
  });

  it('have their relative paths and secret files beside them, and their secrets nowhere in an error', () => {
    folder.write('connectors/id', 'the-hidden/id\n');
    folder.write(
      'connectors/a.yaml',
      `connectors:\n  one:\n    definition: document-library\n    id: "\${file:./id}"\n    sink: warehouse\n    downloads: { directory: ./files }\n`,
    );
    const [problem = ''] = problems(listed);
    expect(problem).toMatch(/^connectors\/a\.yaml:4: connectors\.one\.id: expected 1 to 128 letters/);
    expect(problem).not.toContain('hidden');
    folder.write('connectors/id', 'id-1\n');
    const one = [...folder.load(listed).connectors.values()][0];
    expect(one?.address).toEqual({ kind: 'id', id: 'id-1' });
    expect(one?.downloads?.directory).toBe(`${folder.path}/connectors/files`);
  });

  it('have defaults whose values from outside no error shows', () => {
    folder.env['SECRET'] = 'the-hidden';
    const defaults = `{ onSchemaChange: "\${SECRET}", freshWithin: "\${NOWHERE}", schedule: { cron: "\${SECRET} * * * *" } }`;
    folder.write('connectors/a.yaml', `defaults: ${defaults}\nconnectors:\n${entry('one')}`);
    const found = problems(listed);
    expect(found.map((problem) => problem.split(': ')[1])).toEqual(
      expect.arrayContaining(['defaults.freshWithin', 'defaults.onSchemaChange', 'defaults.schedule.cron']),
    );
    expect(found).toHaveLength(3);
    expect(found.join('\n')).not.toContain('hidden');
  });

  it('need their variables even where no command asks for a part', () => {
    folder.write(
      'connectors/a.yaml',
      `connectors:\n  one: { definition: document-library, id: "\${ONE}", sink: warehouse }\n`,
    );
    expect(problems(listed)).toEqual([
      'connectors/a.yaml:2: connectors.one.id: the environment variable ONE is not set: export it, or put it into .env',
    ]);
  });
});

describe('defaults', () => {
  const defaults =
    'defaults: { definition: document-library, sink: warehouse, freshWithin: 2d, schedule: { every: 1h } }\n';

  it('hold for every connector that does not say otherwise, each key as a whole', () => {
    const { connectors } = folder.load(
      `${base}${defaults}connectors:\n  one: { id: a }\n  two: { id: b, sink: lake, schedule: { cron: "0 4 * * *" } }\n`,
    );
    const [one, two] = [...connectors.values()];
    expect(one).toMatchObject({
      sink: { name: 'warehouse' },
      schedule: { kind: 'every', everyMs: 3_600_000 },
    });
    expect(two).toMatchObject({ sink: { name: 'lake' }, schedule: { kind: 'cron', pattern: '0 4 * * *' } });
    expect(two?.freshWithinMs).toBe(one?.freshWithinMs);
  });

  it('of a file hold before those of the config', () => {
    folder.write('connectors/a.yaml', `defaults: { sink: lake }\nconnectors:\n  one: { id: a }\n`);
    folder.write('connectors/b.yaml', `connectors:\n  two: { id: b }\n`);
    const { connectors } = folder.load(`${base}${defaults}connectors: [./connectors/*.yaml]\n`);
    expect([...connectors.values()].map(({ name, sink }) => [name, sink.name])).toEqual([
      ['one', 'lake'],
      ['two', 'warehouse'],
    ]);
  });

  it('give no workspace to a connector with an id, and no id to one with a workspace', () => {
    const { connectors } = folder.load(
      `${base}defaults: { definition: document-library, sink: warehouse, workspace: acme }\nconnectors:\n  one: { id: a }\n  two: {}\n`,
    );
    expect([...connectors.values()].map(({ address }) => address)).toEqual([
      { kind: 'id', id: 'a' },
      { kind: 'workspace', workspace: 'acme' },
    ]);
  });

  it('report a mistake once, where it is, however many connectors have it', () => {
    const text = `${base}defaults:\n  definition: document-library\n  sink: warehouse\n  concurrency: many\n  schedul: 1\nconnectors:\n  one: { id: a }\n  two: { id: b }\n`;
    expect(problems(text)).toEqual([
      ':8: defaults.concurrency: expected a number, got a string',
      ':9: defaults.schedul: unknown key; did you mean "schedule"?',
    ]);
  });

  it('are checked also where no connector takes them', () => {
    expect(problems(`${base}defaults: { concurrency: 0 }\nconnectors: {}\n`)).toEqual([
      ':5: defaults.concurrency: expected at least 1, got 0',
    ]);
  });

  it('are part of what "config show" prints', () => {
    const shown = folder.view(`${base}${defaults}connectors:\n  one: { id: a }\n`);
    expect(shown).toMatchObject({ connectors: { one: { sink: 'warehouse', schedule: { every: '1h' } } } });
    expect(shown).not.toHaveProperty('defaults');
  });
});

const many = isLong ? 10_000 : 2_000;

describe('thousands of connectors', () => {
  const names = Array.from({ length: many }, (_, index) => `library-${index}`);

  it('fit into one file, each written out with anchors', () => {
    const lines = names.map(
      (name) =>
        `  ${name}: { definition: document-library, id: ${name}, sink: warehouse, schedule: *hourly, entities: *all, freshWithin: 2d, onSchemaChange: evolve }\n`,
    );
    const first = `  first: { definition: document-library, id: first, sink: warehouse, schedule: &hourly { every: 1h, jitter: 1h }, entities: &all { documents: { fullEvery: 1d } } }\n`;
    const text = `${base}connectors:\n${first}${lines.join('')}`;
    expect(text.length).toBeGreaterThan(150 * many);
    const { connectors } = folder.load(text);
    expect(connectors.size).toBe(many + 1);
    expect([...connectors.values()].at(-1)?.schedule).toMatchObject({ everyMs: 3_600_000 });
  });

  it('fit into a hundred files of short entries', () => {
    for (let file = 0; file < 100; file += 1) {
      folder.write(
        `connectors/${file}.yaml`,
        `connectors:\n${names
          .slice((file * many) / 100, ((file + 1) * many) / 100)
          .map((name) => `  ${name}: { id: ${name} }\n`)
          .join('')}`,
      );
    }
    const { connectors } = folder.load(
      `${base}defaults: { definition: document-library, sink: warehouse }\nconnectors: [./connectors]\n`,
    );
    expect(connectors.size).toBe(many);
  });

  it('report a mistake in each, with its line', () => {
    const lines = names.map(
      (name) =>
        `  ${name}: { definition: document-library, id: ${name}, sink: nowhere, schedule: *hourly }\n`,
    );
    const found = problems(
      `defaults: { schedule: &hourly { every: 1h } }\n${base}connectors:\n${lines.join('')}`,
    );
    expect(found).toHaveLength(many);
    const last = `:${many + 6}: connectors.library-${many - 1}.sink: no such sink: "nowhere"`;
    expect(found.at(-1)?.startsWith(last)).toBe(true);
  });
});

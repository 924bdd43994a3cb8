import path from 'node:path';
import { describe, expect } from 'vitest';
import { ProblemsError } from '../../src/core/problems.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import type { ConnectorSettings, LocalSettings } from '../../src/settings/settings.ts';
import { allowedHost, parseSize } from '../../src/settings/texts.ts';
import { it, type ConfigFolder, goodConfig } from '../support/settings/config-folder.ts';
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
const listed = `${base}connectors: [./connectors]\n`;
const entry = (name: string, more = ''): string =>
  `  ${name}: { definition: document-library, id: id-${name}, sink: warehouse${more} }\n`;

function problems(text: string): readonly string[] {
  return folder.problems(text).map((problem) => problem.replaceAll(`${folder.path}/`, ''));
}

describe('connectors in files of their own', () => {
  it.each([
    ['a folder', '[./connectors]', ['one', 'two', 'three']],
    ['a folder as a text', './connectors', ['one', 'two', 'three']],
    ['a file', '[./connectors/b.yaml]', ['two']],
    ['several, each file once', '[./connectors/b.yaml, ./connectors]', ['two', 'one', 'three']],
    ['the folder of the config file', '[., ./connectors/a.yaml]', ['one', 'beside']],
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

  it.each(
    Object.entries({
      '[./none]': '.0: expected a file or a folder of YAML files, nothing is found: "./none"',
      '[./connectors/*.yaml]':
        '.0: expected a file or a folder of YAML files, got a pattern (name its folder)',
      './none.yaml': ': expected a file or a folder of YAML files, nothing is found',
      '[1]': '.0: expected a string, got a number',
      '[]': ': expected at least 1 elements, got 0',
      '5': ': expected an object, got a number',
    }),
  )('are a mistake where there are none: %s', (text, problem) => {
    folder.write('connectors/a.yaml', `connectors:\n${entry('one')}`);
    const found = problems(`${base}# here\nconnectors: ${text}\n`);
    expect(found).toEqual([expect.stringContaining(`:6: connectors${problem}`)]);
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
    const { connectors } = folder.load(`${base}${defaults}connectors: [./connectors]\n`);
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
});

const key = 'planted-key-us10';
const start = 'sinks: { main: { type: sqlite, path: ./main.db } }\n';

function read(connectors: string, env: Readonly<Record<string, string>> = { KEY: key }): LocalSettings {
  return readSettings({ file: 'config.yaml', text: `${start}connectors:\n${connectors}`, env });
}

function problemsOf(connectors: string, more = ''): readonly string[] {
  try {
    readSettings({
      file: 'config.yaml',
      text: `${start}${more}connectors:\n${connectors}`,
      env: { KEY: key },
    });
    return [];
  } catch (error) {
    if (!(error instanceof ProblemsError)) throw error;
    return error.problems.map(({ path, message }) => `${path}: ${message}`);
  }
}

const mail = (credentials: string, more = ''): string =>
  `  mail: { definition: email-marketing, credentials: ${credentials}, sink: main${more} }\n`;

describe('credentials of a connector', () => {
  // Proves promise 10
  it('stand in for the API, and are never shown', () => {
    const settings = withParts(read(mail('{ api_key: "${KEY}" }')), 'access', 'redis');
    expect(settings.access).toBe(null);
    const [connector] = settings.connectors.values();
    expect(connector?.address.kind).toBe('direct');
    const shown = JSON.stringify([...settings.connectors]);
    expect(shown).not.toContain(key);
  });

  it('may be missing where nothing is read', () => {
    const settings = read(mail('{ api_key: "${KEY}" }'), {});
    expect(settings.connectors.values().next().value?.keyPlaces).toEqual([{ kind: 'variable', name: 'KEY' }]);
    expect(settings.connectors.size).toBe(1);
    expect(() => withParts(settings, 'redis')).not.toThrow();
    expect(() => withParts(settings, 'access')).toThrow('KEY is not set');
  });

  it('leave commands that need an API without one', () => {
    expect(() => withParts(read(mail('{ api_key: "${KEY}" }')), 'api')).toThrow(
      'needs a Connector Execution API, and the config has none',
    );
  });

  it.each([
    [
      'a field that is missing',
      mail('{ data_center: us1 }'),
      'connectors.mail.credentials.api_key: expected a text',
    ],
    ['an unknown field', mail('{ api_key: "${KEY}", planted: x }'), 'no other fields than those of API key'],
    ['an address as well', mail('{ api_key: "${KEY}" }', ', id: c-1'), 'expected either credentials'],
    [
      'a number',
      mail('{ api_key: 12345 }'),
      'connectors.mail.credentials.api_key: expected a string, got a number',
    ],
    [
      'a type that only an API can read',
      '  files: { definition: document-library, credentials: { token: x }, sink: main }\n',
      'does not say how its service is called',
    ],
    [
      'a refresh token that changes with each use',
      '  wiki: { definition: workspace-notes, credentials: { client_id: a, client_secret: b, access_token: c, refresh_token: d }, sink: main }\n',
      'each use of it makes another one',
    ],
    [
      'a connector without any, and no API',
      `${mail('{ api_key: "${KEY}" }')}  wiki: { definition: workspace-notes, id: c-2, sink: main }\n`,
      'api: is missing; expected an object; connectors without credentials are read through it',
    ],
  ])('with %s are refused', (_what, connectors, expected) => {
    const problems = problemsOf(connectors).join('\n');
    expect(problems).toContain(expected);
    expect(problems).not.toContain('planted');
  });

  it('are of no interest for a type that only an API can read', () => {
    const text = '  files: { definition: document-library, credentials: { token: x }, sink: main }\n';
    expect(problemsOf(text)).toHaveLength(1);
  });

  it('take a place in the defaults that an id would take', () => {
    const settings = readSettings({
      file: 'config.yaml',
      text: `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b }\n${start}defaults: { definition: email-marketing, sink: main, credentials: { api_key: "\${KEY}" } }\nconnectors: { one: {}, two: { id: c-2 } }\n`,
      env: { KEY: key },
    });
    expect([...settings.connectors.values()].map(({ address }) => address.kind)).toEqual(['direct', 'id']);
  });

  it('name hosts that may be reached at private addresses, and ports of them', () => {
    const text = mail('{ api_key: "${KEY}" }');
    expect(problemsOf(text, 'allowUpstreamHosts: [https://tickets.internal, "a:0", "a:70000"]\n')).toEqual(
      [0, 1, 2].map((at) => `allowUpstreamHosts.${at}: expected host or host:port, without scheme and path`),
    );
    expect(['Tickets.Internal', '[::0001]:080', '127.1:8080', '::1', 'a/b'].map(allowedHost)).toEqual([
      'tickets.internal',
      '[::1]:80',
      '127.0.0.1:8080',
      null,
      null,
    ]);
  });
});

const library = `${goodConfig}  library:
    definition: document-library
    id: c-2
    sink: warehouse
`;
const withDownloads = (text: string, more = ''): string => `${library}${more}    downloads: ${text}\n`;
const downloadsOf = (config: string): ConnectorSettings['downloads'] | undefined =>
  [...folder.load(config).connectors.values()].find(({ name }) => name === 'library')?.downloads;

describe('downloads', () => {
  it('are none by default, and of all entities with files where only a directory is configured', () => {
    expect(downloadsOf(library)).toBeNull();
    expect(downloadsOf(withDownloads('{ directory: ./files }'))).toEqual({
      directory: path.join(folder.path, 'files'),
      entities: ['attachments'],
      maxBytes: 1_000_000_000,
    });
  });

  it('are shown by config show as they are written', () => {
    const shown = folder.view(
      withDownloads('{ directory: /srv/files, entities: [attachments], maxBytes: 20MiB }'),
    );
    expect(shown).toMatchObject({
      connectors: {
        library: {
          downloads: { directory: '/srv/files', entities: ['attachments'], maxBytes: '20MiB' },
        },
      },
    });
    expect(shown).not.toHaveProperty('connectors.newsletter.downloads');
  });

  it('of two connectors may share a directory: each has its own folder there', () => {
    const second = '  other:\n    definition: document-library\n    id: c-3\n    sink: warehouse\n';
    const downloads = '    downloads: { directory: ./files }\n';
    expect(folder.problems(`${library}${downloads}${second}${downloads}`)).toEqual([]);
  });

  it.each(
    Object.entries({
      'directory: ./warehouse.db': 'directory: the sink warehouse stores its records there',
      '': 'directory: is missing',
      'directory: ./files, entities: []': 'entities: ',
      'directory: ./files, entities: [attachment]':
        'entities.0: expected entities that are read and have files, each once (attachments), got "attachment"; did you mean "attachments"?',
      'directory: ./files, entities: [folders]': 'each once (attachments), got "folders"',
      'directory: ./files, entities: [attachments, attachments]': 'entities.1: expected entities',
      'directory: ./files, maxBytes: 1 potato': 'maxBytes: expected bytes, or a size',
      'directory: ./files, maxBytes: 0': 'maxBytes: ',
    }),
  )('refuse { %s }', (downloads, problem) => {
    const problems = folder.problems(withDownloads(`{ ${downloads} }`));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain('library.downloads.');
    expect(problems[0]).toContain(problem);
  });

  it('are refused of an entity that is not read', () => {
    const without = (downloads: string) =>
      folder.problems(withDownloads(downloads, '    exclude: [attachments]\n'));
    expect(without('{ directory: ./files, entities: [attachments] }')).toEqual([
      expect.stringContaining('library.downloads.entities.0: expected entities that are read'),
    ]);
    expect(without('{ directory: ./files }')).toEqual([
      expect.stringContaining('downloads: no entity that is read has files'),
    ]);
  });

  it('report every mistake at once, also of a connector type without files', () => {
    const config = `${goodConfig}    downloads: { directory: ./warehouse.db, entities: [lists, nothing] }\n`;
    expect(folder.problems(config)).toHaveLength(3);
    expect(folder.problems(`${goodConfig}    downloads: { directory: ./files }\n`)).toEqual([
      expect.stringContaining('no entity that is read has files; leave downloads out'),
    ]);
  });
});

describe('a size', () => {
  it.each([
    ['1GB', 1_000_000_000],
    ['1.5 MB', 1_500_000],
    ['64MiB', 67_108_864],
    ['10B', 10],
    ['0MB', null],
    ['1gb', null],
    ['GB', null],
    ['-1MB', null],
    ['1e3MB', null],
    ['999999999999TB', null],
    ['1000', null],
  ])('%s is %s bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });
});

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { describe, expect } from 'vitest';
import { formatProblem, ProblemsError } from '../../src/core/problems.ts';
import { interpolate, hideValue } from '../../src/settings/config-files.ts';
import { loadSettings, secretsOf } from '../../src/settings/load-settings.ts';
import { settingsJsonSchema } from '../../src/settings/settings-file.ts';
import { missingHere } from '../../src/settings/texts.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

const example = fileURLToPath(new URL('../../config/connector-sync.example.yaml', import.meta.url));
const exampleEnv = {
  CONNECTOR_API_URL: 'https://api.example.test',
  CONNECTOR_API_CLIENT_ID: 'me',
  CONNECTOR_API_CLIENT_SECRET: 'hush',
  NEWSLETTER_CONNECTOR_ID: 'c-1',
  WIKI_CONNECTOR_ID: 'c-2',
};

describe('loading settings', () => {
  it('loads the example file', () => {
    const settings = loadSettings({ file: example, env: exampleEnv });
    const [newsletter, wiki] = [...settings.connectors.values()];
    expect(newsletter).toMatchObject({
      address: { kind: 'id', id: 'c-1' },
      sink: {
        type: 'sqlite',
        name: 'warehouse',
        durability: 'full',
        path: path.resolve(example, '../../data/warehouse.db'),
      },
      schedule: {
        kind: 'cron',
        pattern: '*/30 * * * *',
        timezone: 'Europe/Berlin',
        jitterMs: 0,
        missed: 'once',
      },
      freshWithinMs: 2 * 3_600_000,
      concurrency: 4,
      requestsPerSecond: 5,
    });
    const entities = new Map<string, unknown>(newsletter?.entities);
    expect(entities.get('list_members')).toEqual({
      variants: [{ status: 'subscribed' }],
      parents: ['lists'],
      fullEveryMs: 7 * 86_400_000,
      freshWithinMs: 2 * 3_600_000,
      onSchemaChange: 'keepExtra',
      history: null,
    });
    expect(entities.get('email_activity')).toMatchObject({
      fullEveryMs: 30 * 86_400_000,
      freshWithinMs: 86_400_000,
    });
    expect(entities.has('segment_members')).toBe(false);
    expect(wiki).toMatchObject({
      schedule: { kind: 'every', everyMs: 3_600_000, jitterMs: 600_000, missed: 'skip' },
      freshWithinMs: null,
      sink: { type: 'jsonl' },
    });
    expect(settings.redis.isConfigured).toBe(true);
    expect(settings.redis.url.reveal()).toBe('redis://127.0.0.1:6379');
    expect(settings.http.token).toBeNull();
  });

  it('names every missing variable of the example file with its line', () => {
    const problems = problemsOf(() => loadSettings({ file: example, env: {} }));
    expect(problems).toHaveLength(5);
    expect(problems[0]).toBe(
      `${example}:3: api.baseUrl: the environment variable CONNECTOR_API_URL is not set: export it, or put it into .env`,
    );
  });

  it.each([
    ['', ['pages']],
    [', may: read', ['pages']],
    [', may: act', ['pages', 'act']],
    [', may: [pages, data]', ['pages', 'data']],
  ])('gives a token with "%s" the rights %j', (may, rights) => {
    const http = `http: { tokens: { ann: { token: a-token-of-16-or-more${may} } } }\n`;
    expect(folder.load(http + goodConfig).http.tokens['ann']?.may).toEqual(rights);
  });

  it("fills in the defaults, the connector type's own among them", () => {
    const settings = folder.load(goodConfig);
    const [newsletter] = [...settings.connectors.values()];
    expect(settings.api).toMatchObject({ baseUrl: 'https://api.example.test', organizationId: null });
    expect(settings.guards).toEqual({ maxDeleteShare: 0.2, minDeleteRows: 20 });
    expect(settings.redis).toMatchObject({ isConfigured: false, prefix: 'connector-sync' });
    expect(settings.redis.url.reveal()).toBe('redis://127.0.0.1:6379');
    expect(settings.http).toEqual({
      token: null,
      tokens: {},
      hosts: [],
      secretsFolder: null,
      connectorSeries: 'all',
    });
    expect(newsletter).toMatchObject({
      concurrency: 4,
      requestsPerSecond: 10,
      schedule: null,
      freshWithinMs: null,
    });
    expect([...(newsletter?.entities.keys() ?? [])]).toHaveLength(12);
    expect([...(newsletter?.entities.values() ?? [])][0]).toEqual({
      variants: [{}],
      parents: [],
      fullEveryMs: 604_800_000,
      freshWithinMs: null,
      onSchemaChange: 'keepExtra',
      history: null,
    });
  });

  it("takes an entity's own word on changes of its records over the connector's", () => {
    const settings = folder.load(
      `${goodConfig}    onSchemaChange: evolve
    include: [lists, tags]
    entities: { tags: { onSchemaChange: fail } }
`,
    );
    const entities = [...([...settings.connectors.values()][0]?.entities ?? [])];
    expect(entities.map(([name, { onSchemaChange }]) => [name, onSchemaChange])).toEqual([
      ['lists', 'evolve'],
      ['tags', 'fail'],
    ]);
  });

  it('keeps the history that an entity asks for, or else its connector, where the sink can', () => {
    const more = `    include: [lists, tags, campaigns]
    history: { keep: 400d }
    entities: { tags: { history: false }, campaigns: { history: true } }
`;
    const settings = folder.load(goodConfig + more);
    const entities = [...([...settings.connectors.values()][0]?.entities ?? [])];
    expect(new Map(entities.map(([name, { history }]) => [name as string, history]))).toEqual(
      new Map([
        ['lists', { keepMs: 400 * 86_400_000 }],
        ['tags', null],
        ['campaigns', { keepMs: null }],
      ]),
    );
    const lines = goodConfig.replace('type: sqlite, path: ./warehouse.db', 'type: jsonl, directory: ./out');
    expect(lines).not.toBe(goodConfig);
    expect(folder.problems(lines + more).join('\n')).toContain(
      'history: belongs to sinks of type sqlite and postgres',
    );
  });

  it('reads comments on blocks only if configured', () => {
    const wiki = (more: string): readonly string[] => {
      const settings = folder.load(goodConfig.replace('email-marketing', 'workspace-notes') + more);
      const entities = new Map<string, { parents: readonly string[] }>(
        [...settings.connectors.values()][0]?.entities,
      );
      return entities.get('comments')?.parents ?? [];
    };
    expect(wiki('')).toEqual(['pages']);
    expect(wiki('    entities: { comments: { parents: [blocks, pages] } }\n')).toEqual(['pages', 'blocks']);
  });

  it('converts parameters to the declared types, so that one walk has one identity', () => {
    const settings = folder.load(
      `${goodConfig}    entities: { list_members: { variants: [{}, { vip_only: "true", email_type: 1 }] } }\n`,
    );
    const entities = new Map<string, unknown>([...settings.connectors.values()][0]?.entities);
    expect(entities.get('list_members')).toMatchObject({
      variants: [{}, { vip_only: true, email_type: '1' }],
    });
  });

  it("knows the definitions in the user's own folders", () => {
    const fixtures = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));
    const settings = folder.load(
      `definitions: ["${fixtures}"]\n${goodConfig.replace('email-marketing', 'issue-tracker')}`,
    );
    expect([...settings.connectors.values()][0]?.definition.name).toBe('issue-tracker');
  });

  it('says that the file is missing', () => {
    const file = path.join(folder.path, 'none.yaml');
    expect(problemsOf(() => loadSettings({ file, env: {} }))[0]).toMatch(
      /none\.yaml: cannot be read: ENOENT/,
    );
  });
});

describe('secrets', () => {
  // Proves promise 10
  it('stay out of every way of printing the settings', () => {
    const config = `${goodConfig}redis: { url: "redis://user:hush-redis@cache.example.test:6380/1?x=hush-too" }
http: { token: "\${TOKEN}" }
`;
    folder.env['SECRET'] = 'hush-api';
    folder.env['TOKEN'] = 'hush-token-of-the-board';
    const settings = folder.load(config);
    expect(settings.api.clientSecret.reveal()).toBe('hush-api');
    expect(settings.http.token?.reveal()).toBe('hush-token-of-the-board');
    const texts = [
      JSON.stringify(folder.view(config)),
      JSON.stringify(settings),
      inspect(settings, { depth: 20, showHidden: true }),
      String(settings.api.clientSecret),
    ];
    expect(texts.join('\n')).not.toContain('hush');
    expect(texts[0]).toContain('redis://[secret]@cache.example.test:6380/1"');
  });

  it('stay out of messages about them', () => {
    folder.env['SECRET'] = 'hush\n';
    folder.env['URL'] = 'https://user:hush@host';
    folder.env['REDIS'] = 'http://:hush@host';
    folder.env['DURABILITY'] = 'hush';
    folder.env['TOKEN'] = 'hush with blanks in it';
    const problems = folder.problems(
      `${goodConfig.replace('https://api.example.test/', '"${URL}"')}redis: { url: "\${REDIS}" }
http: { token: "\${TOKEN}" }
`,
    );
    expect(problems.map((problem) => problem.split(': ')[1])).toEqual([
      'api.baseUrl',
      'api.clientSecret',
      'redis.url',
      'http.token',
    ]);
    expect(problems.join('\n')).not.toContain('hush');
    const shape = folder.problems(
      goodConfig.replace('path: ./warehouse.db', 'path: x, durability: "${DURABILITY}"'),
    );
    expect(shape).toEqual([
      ':4: api.clientSecret: expected 1 to 4096 characters without line ends and control characters',
      ':6: sinks.warehouse.durability: expected one of full, normal, got a string',
    ]);
  });
});

describe('showing a config', () => {
  it('shows what is written, defaults, and no secrets', () => {
    const config = `${goodConfig}    schedule: { every: 90m, jitter: 5m }
    freshWithin: 3h
    include: [lists, tags]
    entities: { tags: { freshWithin: 2d } }
http: { token: "\${SECRET}-of-the-board-hush" }
`;
    expect(folder.view(config)).toEqual({
      file: path.join(folder.path, 'config.yaml'),
      api: {
        baseUrl: 'https://api.example.test/',
        clientId: 'me',
        clientSecret: '[secret]',
      },
      allowUpstreamHosts: [],
      signIns: { redirect: 'http://127.0.0.1/callback' },
      mask: {},
      definitions: [],
      sinks: {
        warehouse: { type: 'sqlite', path: './warehouse.db', durability: 'full', lockTimeout: '60s' },
      },
      redis: { url: 'redis://127.0.0.1:6379', prefix: 'connector-sync' },
      http: { token: '[secret]', tokens: {}, hosts: [], connectorSeries: 'all' },
      watch: false,
      connectors: {
        newsletter: {
          definition: 'email-marketing',
          id: 'c-1',
          sink: 'warehouse',
          schedule: { every: '90m', jitter: '5m', missed: 'once' },
          freshWithin: '3h',
          onSchemaChange: 'keepExtra',
          include: ['lists', 'tags'],
          exclude: [],
          entities: { tags: { freshWithin: '2d' } },
          mask: {},
        },
      },
      publish: {},
      notify: {},
      allowNotifyHosts: [],
      mcp: { connectors: [], exclude: [], sql: false },
      guards: { maxDeleteShare: 0.2, minDeleteRows: 20 },
    });
  });

  // Proves promise 10
  it('shows no secret of any part', () => {
    const key = Buffer.alloc(32, 5).toString('base64');
    const config = `${goodConfig.replace(
      'warehouse.db }',
      `warehouse.db }
  server: { type: postgres, url: 'postgresql://hush-user:hush-in-url@db.example.test/warehouse', password: hush-beside, directUrl: 'postgresql://hush-user:hush-direct@db.example.test:6432/warehouse' }`,
    )}  direct: { definition: workspace-notes, credentials: { token: hush-credential }, sink: server }
signIns: { key: ${key} }
mask: { key: ${key} }
redis: { url: "redis://:hush-redis@cache.example.test/0" }
http: { token: hush-token-of-board, tokens: { ann: { token: hush-token-of-ann }, toString: { token: hush-token-of-no-property } } }
publish:
  bucket: { type: s3, bucket: bucket-1, region: r, accessKeyId: a, secretAccessKey: hush-s3, connectors: [newsletter] }
  mart: { type: postgres, url: 'postgresql://hush-user:hush-mart@db.example.test/mart', password: hush-pass, connectors: [newsletter] }
notify:
  hook: { type: webhook, url: 'https://hooks.example.test/hush-path', secret: hush-signing-key }
  mail: { type: email, server: 'smtps://mail.example.test', user: u, password: hush-mail, from: a@b.test, to: [c@d.test] }
  beat: { type: heartbeat, url: 'https://beats.example.test/hush-beat' }
mcp: { sqlUser: u, sqlPassword: hush-sql, sql: true }
`;
    const secrets = secretsOf(folder.load(config)).map((secret) => secret.reveal());
    expect(secrets.length).toBeGreaterThan(15);
    const text = JSON.stringify(folder.view(config));
    expect(text).not.toContain('hush');
    for (const secret of secrets) expect(text).not.toContain(secret);
  });

  it('gives editors a JSON Schema that asks for what has no default', () => {
    expect(settingsJsonSchema()).toMatchObject({
      type: 'object',
      required: ['sinks'],
      additionalProperties: false,
      properties: { api: { required: ['baseUrl', 'clientId', 'clientSecret'] } },
    });
  });
});

function problemsOf(load: () => unknown): readonly string[] {
  try {
    load();
  } catch (error) {
    if (error instanceof ProblemsError) return error.problems.map(formatProblem);
    throw error;
  }
  return [];
}

describe('interpolate', () => {
  let folder: ConfigFolder;
  let notes: string[];
  it.beforeEach(({ configs }) => {
    folder = configs;
    notes = [];
  });

  describe('putting values into the config file', () => {
    it('replaces variables anywhere in a text, with defaults for missing and empty ones', () => {
      expect(run({ a: 'x${A}y${B:-b}${EMPTY:-e}', n: [{ b: '${A}' }] }, { A: '1', EMPTY: '' })).toEqual({
        a: 'x1ybe',
        n: [{ b: '1' }],
      });
      expect(run('${A:-}', {})).toBe('');
      expect(run('${A:-redis://h:1/}', {})).toBe('redis://h:1/');
      expect(notes).toEqual([]);
    });

    it('leaves keys, numbers and escaped references alone', () => {
      expect(run({ '${A}': 1, b: true, c: null, d: '$${A} $A $' }, { A: 'x' })).toEqual({
        '${A}': 1,
        b: true,
        c: null,
        d: '${A} $A $',
      });
    });

    it('does not look again at what it put in', () => {
      expect(run('${A}', { A: '${B} $& ${file:/etc/passwd}', B: 'no' })).toBe('${B} $& ${file:/etc/passwd}');
    });

    it.each([
      ['${A}', 'the environment variable A is not set'],
      ['${EMPTY}', 'the environment variable EMPTY is empty'],
      ['${toString}', 'the environment variable toString is not set'],
      ['${A', 'expected } after ${'],
      ['${A B}', 'expected ${NAME}'],
      ['${}', 'expected ${NAME}'],
      ['${file:none}', 'cannot be read (ENOENT)'],
      ['${file:.}', 'expected a file, got something else'],
    ])('notes what is wrong with %s', (text, expected) => {
      run({ deep: [text] }, { EMPTY: '' });
      expect(notes).toHaveLength(1);
      expect(notes[0]).toContain(`deep.0: ${expected.slice(0, 3) === 'can' ? 'the secret file' : expected}`);
      expect(notes[0]).toContain(expected);
    });

    it('says which values came from outside', () => {
      const { hidden } = interpolate({ a: ['x', '${A}'] }, { folder: folder.path, env: { A: '1' } });
      expect(hidden).toEqual(new Set(['a.1']));
    });
  });

  describe('a secret file', () => {
    it('is read relative to the config file, without its last line end', () => {
      mkdirSync(path.join(folder.path, 'sub'));
      folder.write('sub/secret', 'hu sh\n\r\n');
      symlinkSync('sub/secret', path.join(folder.path, 'link'));
      expect(run('${file:./link}', {})).toBe('hu sh\n');
    });

    it.each([0o640, 0o604, 0o620, 0o601])('is refused when others may touch it (%i)', (mode) => {
      folder.write('secret', 'hush');
      chmodSync(path.join(folder.path, 'secret'), mode);
      expect(run('${file:secret}', {})).toBe(missingHere);
      expect(notes[0]).toContain('others may read or change the secret file');
    });

    it('is refused when it is too large or no text, and its content is never shown', () => {
      folder.write('large', 'hush'.repeat(20_000));
      folder.write('binary', '');
      execFileSync('sh', ['-c', `printf 'hush\\377' > "${path.join(folder.path, 'binary')}"`]);
      run(['${file:large}', '${file:binary}'], {});
      expect(notes[0]).toContain('expected a secret of at most 65536 bytes');
      expect(notes[1]).toContain('cannot be read (');
      expect(notes.join('\n')).not.toContain('hush');
    });

    it('does not wait for a pipe', () => {
      execFileSync('mkfifo', ['-m', '600', path.join(folder.path, 'pipe')]);
      run('${file:pipe}', {});
      expect(notes[0]).toContain('expected a file, got something else');
    });
  });

  function run(data: unknown, env: Record<string, string>): unknown {
    const { data: put, unresolved } = interpolate(data, { folder: folder.path, env });
    for (const { at, message } of unresolved) notes.push(`${at.map(String).join('.')}: ${message}`);
    return put;
  }
});

it.each([
  ['no such sink: "hush"; did you mean "bush"?', 'no such sink: [from outside]'],
  ['no such sink: "hu\\"sh"; known are a, b', 'no such sink: [from outside]; known are a, b'],
  [
    'status: expected one of a, b, got "hush"; did you mean "a"?',
    'status: expected one of a, b, got [from outside]',
  ],
  ['no connector matches "hush"; the config has a', 'no connector matches [from outside]; the config has a'],
  ['count: expected at most 5, got 4711', 'count: expected at most 5, got [from outside]'],
  ['"hush" is no parent of tags: it has none', '[from outside] is no parent of tags: it has none'],
  ['expected 1 to 128 letters, digits, "_" and "-"', 'expected 1 to 128 letters, digits, "_" and "-"'],
])('reports %s without the value', (message, expected) => {
  expect(hideValue(message)).toBe(expected);
});

const document = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');

describe('docs/configuration.md', () => {
  it('names every key that the config file may have', () => {
    const keys = keysOf(settingsJsonSchema());
    expect(keys.size).toBeGreaterThan(25);
    const missing = [...keys].filter(
      (key) => !document.includes(`\`${key}\``) && !document.includes(`## ${key}`),
    );
    expect(missing).toEqual([]);
  });
});

/** Every property name of a JSON Schema, however deep. */
function keysOf(schema: unknown, found = new Set<string>()): ReadonlySet<string> {
  if (typeof schema !== 'object' || schema === null) return found;
  for (const [name, value] of Object.entries(schema)) {
    if (name === 'properties' && typeof value === 'object' && value !== null) {
      for (const key of Object.keys(value)) found.add(key);
    }
    keysOf(value, found);
  }
  return found;
}

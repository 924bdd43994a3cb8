import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { checkCron, checkTimezone } from '../../src/settings/cron.ts';
import { postgresAddress, readPostgresUrl } from '../../src/settings/sink-settings.ts';
import { checkBaseUrl, checkRedisUrl, formatDuration, parseDuration } from '../../src/settings/texts.ts';
import { changes } from '../support/changes.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

describe('a config file is refused', () => {
  it.each(
    changes({
      'api:\n  baseUrl: https://api.example.test/\n  clientId: me\n  clientSecret: "${SECRET}"\n → ':
        'api: is missing; expected an object',
      'baseUrl: → base_url:': ':2: api.base_url: unknown key; did you mean "baseUrl"?',
      'clientId: me → clientId: me\n  zzz: 1':
        'api.zzz: unknown key; expected one of baseUrl, clientId, clientSecret, organizationId, scopedToWorkspace',
      'clientId: me → clientId: 7': ':3: api.clientId: expected a string, got a number',
      'clientId: me → clientId: me\n  organizationId: "a b"': 'api.organizationId: expected letters, digits',
      'type: sqlite → type: mysql': 'sinks.warehouse.type: expected type: sqlite, jsonl or postgres',
      './warehouse.db → ":memory:"': 'sinks.warehouse.path: expected the path of a file on disk',
      'warehouse: { → Warehouse: {': 'sinks.Warehouse: expected lower-case words',
      'path: → directory:': 'sinks.warehouse.path: is missing; expected a string',
      'connectors: →   other: { type: sqlite, path: ./x/../warehouse.db }\nconnectors:':
        ':7: sinks.other.path: is the place of sinks.warehouse; give each its own',
      'connectors: →   lake: { type: jsonl, directory: lake }\n  other: { type: sqlite, path: lake/_ledger.db }\nconnectors:':
        'sinks.other.path: is the place of sinks.lake',
      'newsletter: → Newsletter:':
        ':8: connectors.Newsletter: expected lower-case words of letters and digits joined by _ or -, at most 40',
      'newsletter: → prototype:': 'prototype: this name is reserved',
      'connectors: → connectors:\n  a-b: { definition: email-marketing, id: x, sink: warehouse }\n  a_b: { definition: email-marketing, id: y, sink: warehouse }':
        'connectors.a_b: its tables would have the same names as those of a-b',
      'email-marketing → email-marketting':
        ':9: connectors.newsletter.definition: no such definition: "email-marketting"; did you mean "email-marketing"?',
      'sink: warehouse → sink: wharehouse':
        ':11: connectors.newsletter.sink: no such sink: "wharehouse"; did you mean "warehouse"?',
      'id: c-1 → id: ../x': ':10: connectors.newsletter.id: expected 1 to 128 letters',
      '    id: c-1\n → ': 'connectors.newsletter: expected id (the connector in the API) or workspace',
      'id: c-1 → id: c-1\n    workspace: default':
        'connectors.newsletter.workspace: expected either id or workspace, got both',
      'sinks: → guards: { maxDeleteShare: 2, minDeleteRows: -1 }\nsinks:':
        'guards.maxDeleteShare: expected at most 1, got 2',
      'sinks: → redis: { url: redis://cache:6379 }\nsinks:': 'redis.url: expected a password',
      'sinks: → http: { connectorSeries: some }\nsinks:':
        'http.connectorSeries: expected one of all, attention, got "some"',
      'sinks: → http: { token: 5 }\nsinks:': 'http.token: expected a string, got',
      'sinks: → http: { tokens: { ann: { token: a-token-of-16-or-more, may: all } } }\nsinks:':
        'http.tokens.ann.may: expected read, act or a list such as [pages, data, act]',
      'sinks: → http: { tokens: { ann: { token: a-token-of-16-or-more, may: [data, act] } } }\nsinks:':
        'http.tokens.ann.may: expected pages among them',
      'test/ → test/api/v1': 'api.baseUrl: expected the address without /api/v1',
    }),
  )('%s', (_, from, to, expected) => {
    expect(goodConfig.replace(from, to)).not.toBe(goodConfig);
    expect(folder.problems(goodConfig.replace(from, to)).join('\n')).toContain(expected);
  });

  it.each(
    Object.entries({
      'concurrency: 33': 'concurrency: expected at most 32, got 33',
      'history: yes please': 'history: expected true, false or { keep: <duration> }',
      'history: { keep: 2h }': 'history.keep: expected at least 1d',
      'onSchemaChange: evolv':
        'onSchemaChange: expected one of keepExtra, evolve, quarantine, fail, got "evolv"',
      'entities: { lists: { onSchemaChange: true } }':
        'entities.lists.onSchemaChange: expected one of keepExtra, evolve, quarantine, fail, got',
      'concurrency: 1.5': 'concurrency: expected a whole number',
      'rateLimit: { requestsPerSecond: 0 }': 'rateLimit.requestsPerSecond: expected more than 0, got 0',
      'schedule: {}': 'schedule: expected either cron or every, got neither',
      'schedule: { every: 1h, cron: "* * * * *" }': 'schedule: expected either cron or every, got both',
      'schedule: { every: 9s }': 'schedule.every: expected at least 10s',
      'schedule: { every: soon }': 'schedule.every: expected a duration such as 30s, 30m, 1h30m or 7d',
      'schedule: { every: 1h, timezone: UTC }': 'schedule.timezone: belongs to cron',
      'schedule: { cron: "61 * * * *" }': 'schedule.cron: minute: expected numbers 0-59',
      'schedule: { cron: "* * * * *", timezone: Europe/Berlni }':
        'schedule.timezone: expected the name of a time zone',
      'schedule: { every: 1h, jitter: 2h }': 'schedule.jitter: expected at most 1h',
      'schedule: { every: 2d, jitter: 25h }': 'schedule.jitter: expected at most 1d',
      'schedule: { cron: "0 4 * * *", jitter: 1d1s }': 'schedule.jitter: expected at most 1d',
      'schedule: { every: 1h, jitter: a bit }': 'schedule.jitter: expected a duration such as 30s',
      'schedule: { every: 1h, jitter: 0s }': 'schedule.jitter: expected a duration such as 30s',
      'schedule: { every: 1h, jitter: 5 }':
        'schedule.jitter: expected a duration such as 30s, 30m, 1h30m or 7d, got a number',
      'schedule: { every: 1h, missed: skipp }':
        'schedule.missed: expected one of once, skip, got "skipp"; did you mean "skip"?',
      'schedule: { every: 1h, jiter: 5m }': 'schedule.jiter: unknown key; did you mean "jitter"?',
      'freshWithin: today': 'newsletter.freshWithin: expected a duration such as 30s',
      'entities: { lists: { freshWithin: 0h } }': 'entities.lists.freshWithin: expected a duration',
      'exclude: [segment_memberz]':
        'exclude.0: no such entity in email-marketing: "segment_memberz"; did you mean "segment_members"?',
      'exclude: [segments]':
        'exclude: without segments nothing leads to segment_members: read all of them, or none',
      'exclude: [lists, tags]':
        'exclude: without lists nothing leads to list_members, interest_categories, interests, segments, segment_members: read all of them, or none',
      'include: [tags]': 'include: without lists nothing leads to tags: read all of them, or none',
      'include: [reports]\n    exclude: [reports]':
        'connectors.newsletter: expected at least one entity to read, got none',
      'entities: { memberz: {} }': 'entities.memberz: no such entity in email-marketing',
      'entities: { lists: { fullEvery: 0d } }': 'entities.lists.fullEvery: expected a duration',
      'entities: { lists: { parents: [campaigns] } }':
        'entities.lists.parents.0: "campaigns" is no parent of lists: it has none',
      'entities: { tags: { parents: [campaigns] } }':
        'entities.tags.parents.0: "campaigns" is no parent of tags: its parents are lists',
      'entities: { list_members: { params: { status: x } } }':
        'entities.list_members.params.status: status: expected one of',
      'entities: { list_members: { params: { list_id: x } } }':
        'params.list_id: is filled from every record of lists; leave it out',
      'entities: { list_members: { params: { count: 5 } } }':
        'params.count: is set page by page; leave it out',
      'entities: { list_members: { params: { sort_dir: DESC } } }':
        'params.sort_dir: sets the order that a complete read needs; leave it out',
      'entities: { list_members: { params: {}, variants: [{}] } }':
        'variants: expected either params or variants, got both',
      'entities: { list_members: { variants: [{ vip_only: true, email_type: a }, { email_type: a, vip_only: "true" }] } }':
        'variants.1: says the same as another variant',
    }),
  )('with a connector that says %s', (more, expected) => {
    const problems = folder.problems(`${goodConfig}    ${more}\n`);
    expect(problems.join('\n')).toContain(expected);
    expect(problems.every((problem) => /^:\d+: connectors\.newsletter/.test(problem))).toBe(true);
  });

  it.each(['', 'Sync', '9sync', 'a:b', 'a b', '{a}', `a${'b'.repeat(40)}`])(
    'with "%s" before the keys in Redis',
    (prefix) => {
      expect(folder.problems(`redis: { prefix: ${JSON.stringify(prefix)} }\n${goodConfig}`)).toEqual([
        ':1: redis.prefix: expected a lower-case letter, then lower-case letters, digits, "_" and "-", at most 40 characters',
      ]);
    },
  );

  it.each(['', '123456789012345', 'sixteen letters and', 'sixteen-lettérs-and', 'a'.repeat(513)])(
    'with the token "%s" for the board, which is not quoted',
    (token) => {
      expect(folder.problems(`http: { token: "${token}" }\n${goodConfig}`)).toEqual([
        ':1: http.token: expected 16 to 512 visible ASCII characters without blanks',
      ]);
    },
  );

  it('with a filter that the definition fixes', () => {
    const config = goodConfig.replace('email-marketing', 'workspace-notes');
    expect(folder.problems(`${config}    entities: { pages: { params: { filter: {} } } }\n`)).toEqual([
      ':12: connectors.newsletter.entities.pages.params.filter: is fixed by the definition; leave it out',
    ]);
  });
});

describe('leaving entities out', () => {
  it('is fine when the children go too, or are found another way', () => {
    expect(folder.problems(`${goodConfig}    exclude: [segments, segment_members]\n`)).toEqual([]);
    const notes = goodConfig.replace('email-marketing', 'workspace-notes');
    expect(folder.problems(`${notes}    exclude: [blocks]\n`)).toEqual([]);
    const both = '    entities: { comments: { parents: [pages, blocks] } }\n';
    expect(folder.problems(`${notes}    exclude: [blocks]\n${both}`).join()).toContain(
      'without blocks nothing leads to comments',
    );
  });
});

const tracker = readFileSync(
  fileURLToPath(new URL('../fixtures/definitions/issue-tracker.yaml', import.meta.url)),
  'utf8',
);

describe('a config file with mistakes of several kinds', () => {
  it('reports all of wrong shapes, each with its line', () => {
    const problems = folder.problems(`api:
  baseUrl: https://me:hush@api.example.test
  clientId: 7
sinks:
  warehouse: { type: sqlite, path: ./warehouse.db, durability: ful }
  lake: { type: jsonl }
connectors:
  newsletter:
    definition: email-marketting
    id: ../x
    sink: warehouse
    concurrency: four
    schedule: { cron: "61 * * * *" }
  wiki: { definition: workspace-notes, id: c-2, sink: lake, exclude: [page], shedule: {} }
`);
    expect(problems).toEqual([
      ':1: api.clientSecret: is missing; expected a string',
      ':2: api.baseUrl: expected no user name or password in the address; use clientId and clientSecret',
      ':3: api.clientId: expected a string, got a number',
      ':5: sinks.warehouse.durability: expected one of full, normal, got "ful"; did you mean "full"?',
      ':6: sinks.lake.directory: is missing; expected a string',
      ':12: connectors.newsletter.concurrency: expected a number, got a string',
      ':13: connectors.newsletter.schedule.cron: minute: expected numbers 0-59, *, ranges and steps, got "61"',
      ':14: connectors.wiki.shedule: unknown key; did you mean "schedule"?',
    ]);
  });

  it('reports all of parts that do not fit together, once their shapes are right', () => {
    const problems =
      folder.problems(`${goodConfig.replace('c-1', '../x')}  typo: { definition: email-marketting, id: c-3, sink: wharehouse }
  wiki: { definition: workspace-notes, id: c-2, sink: warehouse, exclude: [page] }
  more: { definition: workspace-notes, sink: warehouse }
`);
    expect(problems).toEqual([
      ':10: connectors.newsletter.id: expected 1 to 128 letters, digits, "_" and "-"',
      ':12: connectors.typo.sink: no such sink: "wharehouse"; did you mean "warehouse"?',
      ':12: connectors.typo.definition: no such definition: "email-marketting"; did you mean "email-marketing"?',
      ':13: connectors.wiki.exclude.0: no such entity in workspace-notes: "page"; did you mean "pages"?',
      ':14: connectors.more: expected id (the connector in the API) or workspace (to find it by definition), or credentials (to read the service itself)',
    ]);
  });

  it('reports those about scheduled runs together, and each only once', () => {
    folder.env['TOKEN'] = 'hush';
    const problems = folder.problems(`${goodConfig}    schedule: { every: 5s, jitter: soon, missed: twice }
    freshWithin: 1.5h
    entities: { lists: { freshWithin: never }, tags: { freshWithin: 5 } }
redis: { url: redis://cache, prefix: "A:" }
http: { token: "\${TOKEN}" }
`);
    const bad = 'expected a duration such as 30s, 30m, 1h30m or 7d';
    expect(problems).toEqual([
      ':12: connectors.newsletter.schedule.every: expected at least 10s',
      `:12: connectors.newsletter.schedule.jitter: ${bad}`,
      ':12: connectors.newsletter.schedule.missed: expected one of once, skip, got "twice"',
      `:13: connectors.newsletter.freshWithin: ${bad}`,
      `:14: connectors.newsletter.entities.lists.freshWithin: ${bad}`,
      ':14: connectors.newsletter.entities.tags.freshWithin: expected a duration such as 30s, 30m, 1h30m or 7d, got a number',
      ':15: redis.url: expected a password (redis://:password@host): a Redis that others can reach must not be open',
      ':15: redis.prefix: expected a lower-case letter, then lower-case letters, digits, "_" and "-", at most 40 characters',
      ':16: http.token: expected 16 to 512 visible ASCII characters without blanks',
    ]);
  });

  it('says what to write where sinks are missing, and where the file is empty', () => {
    const [missing = ''] = folder.problems(goodConfig.replace(/sinks:\n.*\n/, ''));
    expect(missing).toContain('sinks: { main: { type: sqlite, path: ./data/main.db } }');
    for (const text of ['', '# nothing\n']) {
      expect(folder.problems(text).join()).toMatch(
        /the file is empty; expected api, .*"connector-sync init"/,
      );
    }
  });

  it('reports them without api, too', () => {
    expect(folder.problems(goodConfig.replace(/api:[^]*?(?=sinks)/, '').replace('c-1', '../x'))).toEqual([
      expect.stringMatching(/^:1: api: is missing; expected an object\. For example: api: \{ baseUrl: /),
      ':6: connectors.newsletter.id: expected 1 to 128 letters, digits, "_" and "-"',
    ]);
  });
});

it('reports mistakes of definitions before those of connectors', () => {
  folder.write('definitions/tracker.yaml', tracker.replace('maxSize: 50', 'maxSize: 51'));
  const config = `definitions: [definitions]\n${goodConfig.replace('email-marketing', 'issue-tracker')}`;
  const places = folder.problems(config).map((problem) => problem.split(': ').slice(0, 2).join(' '));
  expect(places.map((place) => place.replace(folder.path, ''))).toEqual([
    '/definitions/tracker.yaml:35 entities.projects.pagination.maxSize',
    '/definitions/tracker.yaml:35 entities.issues.pagination.maxSize',
  ]);
});

it('a value from outside is not quoted by any check', () => {
  folder.env['VALUE'] = 'hush';
  const problems = [
    ...folder.problems(`${goodConfig}    schedule: { cron: "\${VALUE} * * * *" }\n`),
    ...folder.problems(
      goodConfig.replace('sink: warehouse', 'sink: "${VALUE}"').replace('email-marketing', '${VALUE}'),
    ),
  ];
  expect(problems).toHaveLength(3);
  expect(problems.join('\n')).not.toContain('hush');
});

describe('the base URL', () => {
  it.each([
    ['https://api.example.com', 'https://api.example.com'],
    ['https://api.example.com:8443/prefix//', 'https://api.example.com:8443/prefix'],
    ['https://10.1.2.3', 'https://10.1.2.3'],
    ['http://127.0.0.1:8080/', 'http://127.0.0.1:8080'],
    ['http://127.1:8080', 'http://127.0.0.1:8080'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://localhost:8080', 'http://localhost:8080'],
    ['https://[2001:db8::1]', 'https://[2001:db8::1]'],
  ])('may be %s', (text, value) => {
    expect(checkBaseUrl(text)).toEqual({ ok: true, value });
  });

  it.each([
    ['http://api.example.com', 'expected https'],
    ['http://10.1.2.3', 'expected https'],
    ['http://localhost.', 'expected https'],
    ['http://127.0.0.1.example.com', 'expected https'],
    ['https://169.254.169.254', 'link-local'],
    ['https://0xa9fea9fe', 'link-local'],
    ['https://[::ffff:169.254.169.254]', 'link-local'],
    ['https://[::ffff:7f00:1]', 'link-local'],
    ['https://[::7f00:1]', 'link-local'],
    ['https://[::]', 'link-local'],
    ['https://[fe80::1]', 'link-local'],
    ['https://[64:ff9b::a9fe:a9fe]', 'link-local'],
    ['https://0.0.0.0', 'link-local'],
    ['https://[fd00:ec2::254]', 'metadata'],
    ['https://[FD00:0ec2:0::254]', 'metadata'],
    ['https://user@host', 'user name'],
    ['https://user:hush@host', 'user name'],
    ['https://host/?a', 'query'],
    ['https://host/?', 'query'],
    ['https://host/#', 'fragment'],
    ['https://host/api/v1/', '/api/v1'],
    ['ftp://host', 'expected an address'],
    ['host', 'expected an address'],
    ['https://ho st', 'expected an address'],
    ['https://host\n', 'expected an address'],
    ['https:\\\\host', 'expected an address'],
    ['', 'expected an address'],
  ])('may not be %j', (text, why) => {
    expect(checkBaseUrl(text)).toEqual({ ok: false, why: expect.stringContaining(why) });
  });
});

describe('the Redis URL', () => {
  it.each(['redis://127.0.0.1:6379', 'redis://localhost', 'redis://[::1]:1/2', 'rediss://:pw@cache:6380'])(
    'may be %s',
    (text) => {
      expect(checkRedisUrl(text)).toEqual({ ok: true, value: text });
    },
  );

  it.each(['redis://cache', 'rediss://user@cache', 'http://127.0.0.1', 'redis:///x', 'cache:6379'])(
    'may not be %s',
    (text) => {
      expect(checkRedisUrl(text).ok).toBe(false);
    },
  );
});

describe('a cron pattern', () => {
  it.each([
    '* * * * *',
    '*/30 * * * *',
    '0 0 1 1 *',
    '0 9-17/2 * * mon-fri',
    '5,10-20 4 * JAN,jul 7',
    '5/15 * * * *',
    '0 30 4 * * *',
    '0 0 29 2 *',
    '0 0 31 2 1',
    '  0 0 * *  0 ',
  ])('may be "%s"', (pattern) => {
    expect(checkCron(pattern)).toEqual({ ok: true, value: pattern.trim() });
  });

  it.each([
    ['* * * *', 'expected 5 fields'],
    ['* * * * * * *', 'expected 5 fields'],
    ['60 * * * *', 'minute: expected numbers 0-59'],
    ['* 24 * * *', 'hour: expected'],
    ['* * 0 * *', 'day of month: expected'],
    ['* * * 13 *', 'month: expected numbers 1-12 or jan-dec'],
    ['* * * * 8', 'day of week: expected numbers 0-7 or sun-sat'],
    ['60 * * * * *', 'second: expected'],
    ['*/0 * * * *', 'minute: expected'],
    ['5-1 * * * *', 'minute: expected'],
    ['1,,2 * * * *', 'minute: expected'],
    ['-1 * * * *', 'minute: expected'],
    ['@daily', 'expected 5 fields'],
    ['0 0 30 2 *', 'no chosen month has a day 30'],
    ['0 0 31 4,6 *', 'no chosen month has a day 31'],
  ])('may not be "%s"', (pattern, why) => {
    expect(checkCron(pattern)).toEqual({ ok: false, why: expect.stringContaining(why) });
  });

  it.each(['0,0 * * * *', '50,0-20/10,10 * * * *', '0 4 * jan,1,3 0', ' 0 4  1 * 5-7,0'])(
    'names no value twice, as "%s" does',
    (pattern) => {
      expect(checkCron(pattern)).toEqual({ ok: false, why: expect.stringContaining('names a value twice') });
    },
  );

  it('belongs to a time zone that exists', () => {
    expect(['UTC', 'Europe/Berlin', 'America/Argentina/Ushuaia'].map(checkTimezone)).toEqual([
      null,
      null,
      null,
    ]);
    expect(['Mars/Olympus', '+02:00', '', 'CEST x'].filter((zone) => checkTimezone(zone) === null)).toEqual(
      [],
    );
  });
});

describe('a duration', () => {
  it.each([
    ['30s', 30_000],
    ['30m', 1_800_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
    ['1d2h3m4s', 93_784_000],
  ])('%s is %i ms and is written the same way again', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
    expect(formatDuration(ms)).toBe(text);
  });

  it.each(['', '0s', '5', 'm', '1.5h', '30m1h', '1h 30m', '-1h', '1w', '500ms'])('is not %j', (text) => {
    expect(parseDuration(text)).toBeNull();
  });
});

function build(url: string, password?: string) {
  const problems: string[] = [];
  const read = readPostgresUrl(url, (message) => void problems.push(message));
  const address = postgresAddress(read, password, '/etc/sync');
  return { ...address, password: address.password?.reveal() ?? null, problems };
}

describe('the address of a PostgreSQL server', () => {
  it('has a user, a host, a port and a database', () => {
    expect(build('postgresql://sync@db.example.com:6432/warehouse')).toEqual({
      hosts: [{ host: 'db.example.com', port: 6432 }],
      database: 'warehouse',
      user: 'sync',
      password: null,
      sslmode: 'verify-full',
      rootCertificate: null,
      problems: [],
    });
  });

  it('checks certificates unless the server is on this machine', () => {
    const modeOf = (url: string): string => build(url).sslmode;
    expect(modeOf('postgres://u@127.0.0.1/d')).toBe('disable');
    expect(modeOf('postgres://u@[::1]/d')).toBe('disable');
    expect(modeOf('postgres://u@localhost,db.example.com/d')).toBe('verify-full');
    expect(modeOf('postgres:///d?host=/run/postgresql')).toBe('disable');
    expect(modeOf('postgres://u@db/d?sslmode=require')).toBe('require');
    expect(modeOf('postgres://u@db/d?sslmode=verify-ca&sslrootcert=ca.pem')).toBe('verify-ca');
    expect(modeOf('postgres://u@127.0.0.1/d?sslrootcert=ca.pem')).toBe('verify-full');
    expect(build('postgres://u@db/d?sslrootcert=system').rootCertificate).toBeNull();
    expect(build('postgres://u@db/d?sslmode=verify-full&sslrootcert=ca.pem').rootCertificate).toBe(
      '/etc/sync/ca.pem',
    );
  });

  it('may have several hosts, with ports of their own', () => {
    expect(build('postgres://u@a:1,b,[fe80::1]:3/d').hosts).toEqual([
      { host: 'a', port: 1 },
      { host: 'b', port: 5432 },
      { host: 'fe80::1', port: 3 },
    ]);
  });

  it('takes a password from the address, decoded, or from beside it', () => {
    expect(build('postgres://u:p%40%3Aq@h/d').password).toBe('p@:q');
    expect(build('postgres://u:one@h/d', 'p@/?#').password).toBe('p@/?#');
  });

  it.each([
    ['mysql://u@h/d', 'expected an address such as postgresql://user@host:5432/database'],
    ['postgres://u:p@ss/word@h/d', 'write @ / ? # in a password as %40 %2F %3F %23'],
    ['postgres://h/d', 'expected a user'],
    ['postgres://u@h', 'expected a database'],
    ['postgres://u@h:99999/d', 'expected a host and a port'],
    ['postgres://u@/d', 'expected a host and a port'],
    ['postgres://u@h/d?sslmode=prefer', 'expected sslmode to be disable, require, verify-ca, verify-full'],
    ['postgres://u@h/d?sslmode=verify-ca', 'expected sslrootcert with sslmode=verify-ca'],
    ['postgres://u@h/d?sslmode=verify-ca&sslrootcert=system', 'expected sslrootcert with sslmode=verify-ca'],
    ['postgres://u@h/d?sslmode=require&sslrootcert=ca.pem', 'expected no sslrootcert with sslmode=require'],
    ['postgres://u@h/d?options=-csearch_path', 'expected no other options'],
    ['postgres://u%zz@h/d', 'expected % only in front of two hex digits'],
    ['postgres://u@h/d?host=relative', 'expected the absolute path of a folder'],
  ])('refuses %s', (url, message) => {
    expect(build(url).problems.join('; ')).toContain(message);
  });

  it('never quotes what it refuses', () => {
    const { problems } = build('postgres://u:secret-word@h:x/d?sslmode=secret-word&secret-word=1');
    expect(problems.length).toBeGreaterThan(0);
    expect(problems.join()).not.toContain('secret-word');
  });
});

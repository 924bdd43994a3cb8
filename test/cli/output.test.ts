import { describe, expect, it } from 'vitest';
import type { CopyEnd } from '../../src/app/copy-connector.ts';
import { copiedText, copyEndText, type EndedCopy } from '../../src/cli/commands/copy.ts';
import { runsTable, type ShownRun } from '../../src/cli/commands/run-commands.ts';
import { commands } from '../../src/cli/commands.ts';
import { programName, shellWord } from '../../src/cli/environment.ts';
import { runReportText } from '../../src/cli/output/show-run.ts';
import { answerTable } from '../../src/cli/output/record-table.ts';
import { wrapped, textTable } from '../../src/cli/output/text-table.ts';
import { instant } from '../../src/core/clock.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
  type RunId,
} from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { nothingDone } from '../../src/engine/run-tally.ts';
import type { ConnectorSettings, SinkSettings } from '../../src/settings/settings.ts';
import type { EntityReport, RunReport, RunOutcome } from '../../src/sinks/run-report.ts';
import { jsonText } from '../../src/cli/output/json-text.ts';
import { openTerminal, type Output, type Terminal } from '../../src/cli/output/terminal.ts';
import { Secret } from '../../src/core/secret.ts';
import { createScrubber } from '../../src/telemetry/scrubber.ts';
import {
  exitCodeOfError,
  exitCodeOfReport,
  gravestExitCode,
  type ExitCode,
} from '../../src/cli/output/exit-codes.ts';
import { SyncError, type ErrorCode } from '../../src/core/errors.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { callCli } from '../support/run-cli.ts';

it('the help begins with the commands of the first hour, and names every other one once, by subject', async () => {
  const { stdout, code } = await callCli(['--help'], { cwd: '.', columns: 110 });
  const [, first = '', others = ''] =
    /The first hour:\n([^]*?)\n\nMore commands.*\n([^]*?)\n\nExamples/.exec(stdout) ?? [];
  const named = [
    ...[...first.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name),
    ...[...others.matchAll(/ {2}((?:\w+, )*\w+)$/gm)].flatMap(([, names = '']) => names.split(', ')),
  ];
  expect(named.slice(0, 5)).toEqual(['demo', 'init', 'check', 'sync', 'status']);
  expect(new Set(named)).toEqual(new Set(commands.map(({ name }) => name)));
  expect(named).toHaveLength(commands.length);
  expect([code, stdout.split('\n').length < 60]).toEqual([0, true]);
});

it('log lines are for people as text, without what moves a cursor, and JSON otherwise', async () => {
  const logged = async (format: 'json' | 'text'): Promise<string> => {
    let lines = '';
    const log = await openLog({ level: 'info', format, write: (line) => (lines += line) });
    log.warn(
      { connector: 'news', run: 'r1', list: [1], err: new SyncError('gone\u001b[2J', failed) },
      'run ended',
    );
    return lines;
  };
  expect((await logged('text')).slice(8)).toBe(
    ' warn  news: run ended, run r1, list [1], because gone\ufffd[2J',
  );
  expect(JSON.parse(await logged('json'))).toMatchObject({
    level: 'warn',
    connector: 'news',
    msg: 'run ended',
  });
});

const failed = { code: 'SINK_FAILED', recovery: 'stop' } as const;

describe('the text of a run', () => {
  it('is complete where the output is not a terminal', () => {
    const [, titles] = runReportText(report({ setAside: 3 }), null);
    expect(titles?.trim().split(/ +/)).toEqual(
      'entity read inserted updated unchanged duplicate deleted pages listings complete notes'.split(' '),
    );
  });

  it('drops number columns that hold only zeros where the table would wrap', () => {
    const lines = runReportText(report({ setAside: 3 }), 80);
    expect(lines[1]?.trim().split(/ +/)).toEqual(
      'entity read inserted pages listings complete notes'.split(' '),
    );
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('gives notes a line of their own where it would still wrap', () => {
    const lines = runReportText(report({ setAside: 12, unordered: 3, extraFields: 7 }), 80);
    expect(lines[1]).not.toContain('notes');
    expect(lines[2]).toMatch(/^ {2}email_activity_events /);
    expect(lines[3]).toBe('      12 failed, 3 without a stable order, 7 values kept in _extra');
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('never wraps for the names of proofs: where they are too long a row is a sentence', () => {
    const proofs = { single: 5, seam: 0, token: 0, keyset: 1 };
    const counts = { ...noCounts, fetched: 24_000, inserted: 1, unchanged: 22_999, duplicate: 1000 };
    const lines = runReportText(report({ proofs, counts, incremental: 5 }), 80, { isVerbose: true });
    expect(lines.slice(1).join(' ').replaceAll(/\s+/g, ' ')).toContain(
      'changes only (single, keyset), 1 of 6 listings in full',
    );
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('writes a row as a sentence where its numbers alone are too wide', () => {
    const counts = { ...noCounts, fetched: 3340, inserted: 34, updated: 13, unchanged: 3223, duplicate: 70 };
    const lines = runReportText(report({ counts, deleted: 27, incremental: 5 }), 80);
    expect(lines.slice(1, 4)).toEqual([
      '  email_activity_events: read 3,340, inserted 34, updated 13, unchanged 3,223,',
      '      duplicate 70, deleted 27, pages 12, listings 12, changes only,',
      '      7 of 12 listings in full',
    ]);
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('says of how many records the change value is no time', () => {
    expect(runReportText(report({ undated: 2 }), null).join('\n')).toContain(
      '! email_activity_events: 2 records with a change value that is no time',
    );
  });

  it('says of an entity that a whole run had no reason to ask for that nothing in it was new', () => {
    const quiet = { counts: noCounts, pages: 0, proofs: { single: 0, seam: 0, token: 0, keyset: 0 } };
    const note = 'nothing new to read';
    expect(runReportText(report(quiet), null).join('\n')).toContain(note);
    const others = [
      report(),
      report({ ...quiet, setAside: 1 }),
      { ...report(quiet), outcome: 'interrupted' as const },
      { ...report(quiet), continues: 'r0' as RunReport['run'] },
      { ...report(quiet), kind: 'refetch' as const },
      { ...report(quiet), left: [{ entity: entity('email_activity_events'), partitions: 1 }] },
    ];
    for (const other of others) expect(runReportText(other, null).join('\n')).not.toContain(note);
  });

  it('counts one as one, and says that waits are a sum over parallel calls', () => {
    expect(runReportText(report(), null).at(-1)).toBe(
      '  1 call, 2 retries, rate-limit wait 46.0 s over all calls, 1 KiB received',
    );
  });

  it('says of a resumed run that it skipped what was finished', () => {
    expect(runReportText({ ...report(), continues: 'r0' as RunReport['run'] }, null)[0]).toContain(
      ', resumed r0; finished parts skipped',
    );
  });

  it('says until when the API asked to wait', () => {
    const resumeAt = '2026-03-01T10:15:00.000Z';
    expect(runReportText({ ...report(), outcome: 'partial', resumeAt }, null)).toContain(
      '  ! the API asked to wait until 2026-03-01T10:15:00.000Z; run it again then',
    );
  });

  it('says what remains for the next run', () => {
    const left = [
      { entity: entity('lists'), partitions: 1 },
      { entity: entity('list_members'), partitions: 1200 },
    ];
    expect(runReportText({ ...report(), left }, null)).toContain(
      '  left for the next run: lists (1 listing), list_members (1,200 listings)',
    );
  });

  it('says of withheld deletes how many, why, and what to do', () => {
    const withholding = {
      dayAgo: 610,
      deletedInDay: 0,
      below: 0,
      along: [],
      maxDeleteShare: 0.2,
      minDeleteRows: 20,
    };
    const withheld = (more: Partial<EntityReport>): readonly string[] =>
      runReportText(report({ withheld: 310, withheldBecause: 'share', withholding, ...more }), null, {
        program: 'npx cs',
      });
    expect(withheld({}).slice(-2)).toEqual([
      '  ! email_activity_events: 310 rows look deleted and are kept (of 610 rows a day ago, limit: more than 20 % and more than 20 rows in 24 hours)',
      '    check at the source; if they are deleted there: npx cs sync newsletter --allow-deletes; to look at single records: npx cs audit newsletter/email_activity_events',
    ]);
    expect(withheld({ withholding: { ...withholding, deletedInDay: 90 } }).at(-2)).toBe(
      '  ! email_activity_events: 310 rows look deleted and are kept (of 610 rows a day ago, 90 more were deleted in the last 24 hours, limit: more than 20 % and more than 20 rows in 24 hours)',
    );
    const below = { ...withholding, dayAgo: 2000, deletedInDay: 200, below: 300 };
    expect(withheld({ withheld: 100, withholding: below }).at(-2)).toBe(
      '  ! email_activity_events: 100 rows look deleted and are kept (of 2,000 rows a day ago, 300 more would go with the records above them, 200 more were deleted in the last 24 hours, limit: more than 20 % and more than 20 rows in 24 hours)',
    );
    const along = [
      { entity: entity('tags'), rows: 3 },
      { entity: entity('list_members'), rows: 4730 },
      { entity: entity('interests'), rows: 40 },
      { entity: entity('segments'), rows: 2 },
    ];
    expect(
      withheld({ withheld: 6, withheldBecause: 'along', withholding: { ...withholding, along } }).at(-2),
    ).toBe(
      '  ! email_activity_events: 6 rows look deleted and are kept (of 610 rows a day ago, 4,730 list_members, 40 interests, 3 tags and 1 more would go along, limit: more than 20 % and more than 20 rows in 24 hours)',
    );
    expect(withheld({ withheld: 1, withheldBecause: 'empty' }).at(-2)).toBe(
      '  ! email_activity_events: 1 row looks deleted and is kept: the listing came back empty, and a second complete read has to agree (of 610 rows a day ago, limit: more than 20 % and more than 20 rows in 24 hours)',
    );
    expect(withheld({ withheld: 54, withheldBecause: 'replaced' }).at(-2)).toContain(
      '54 rows look deleted and are kept: none of the stored rows came back, only other records. Is it still the same account?',
    );
    expect(withheld({ withheld: 54, withholding: null }).at(-2)).toBe(
      '  ! email_activity_events: 54 rows look deleted and are kept',
    );
  });

  it('says in one line what is not yet certain to be gone', () => {
    expect(runReportText(report({ pending: 12 }), null).at(-1)).toBe(
      '  may be deleted, kept until that is confirmed: 12 of email_activity_events',
    );
  });

  it('says how many rows are still to be asked for, and by how many runs', () => {
    const waiting = {
      ...report({ pending: 8_200, toConfirm: 8_200 }),
      confirmation: { callsPerRun: 1_800 },
    };
    expect(runReportText(waiting, null).at(-1)).toBe(
      '  still to be asked for by get: 8,200 of email_activity_events, in 5 runs of up to 1,800 calls',
    );
  });

  it('says of each entity whether it was read completely, and by which proof only where an expert asks', () => {
    const complete = (
      more: Partial<EntityReport>,
      whole: Partial<RunReport> = {},
      isVerbose = false,
    ): string => {
      const [, titles = '', row = ''] = runReportText({ ...report(more), ...whole }, null, { isVerbose });
      if (!titles.includes('complete')) return 'no column';
      return row.slice(titles.indexOf('complete')).split(/ {2,}/)[0] ?? '';
    };
    expect(complete({})).toBe('yes');
    expect(complete({}, {}, true)).toBe('yes (seam)');
    expect(complete({ incremental: 5 })).toBe('changes only');
    expect(complete({ incremental: 5, completeness: 'unconfirmed' })).toBe('unconfirmed');
    expect(complete({ completeness: 'part-missing' })).toBe('part missing');
    expect(complete({ completeness: 'not-yet' })).toBe('not yet');
    // Rows made of an entity's elements have no listings.
    expect(complete({ pages: 0, proofs: { single: 0, seam: 0, token: 0, keyset: 0 } })).toBe('no column');
  });

  it('counts deleted rows in a column of their own', () => {
    const [, titles = '', row = ''] = runReportText(report({ deleted: 7 }), null);
    expect(row.slice(0, titles.indexOf('deleted') + 'deleted'.length)).toMatch(/ 7$/);
  });
});

function entity(name: string): EntityReport['entity'] {
  if (!isDeclaredName(name)) throw new Error(`no entity name: ${name}`);
  return name;
}

function report(more: Partial<EntityReport> = {}): RunReport {
  const connector = 'newsletter';
  if (!isConnectorName(connector)) throw new Error('names should be names');
  return {
    run: 'r1' as RunReport['run'],
    kind: 'sync',
    connector,
    outcome: 'ok',
    startedAt: '2026-03-01T10:00:00.000Z',
    finishedAt: '2026-03-01T10:00:02.000Z',
    continues: null,
    entities: [
      {
        ...nothingDone,
        entity: entity('email_activity_events'),
        counts: { ...noCounts, fetched: 1200, inserted: 1200 },
        pages: 12,
        proofs: { single: 0, seam: 12, token: 0, keyset: 0 },
        isWhole: true,
        completeness: 'complete',
        ...more,
      },
    ],
    calls: 1,
    retries: 2,
    waitedMs: 46_000,
    bytes: 1024,
    failures: [],
    failuresOmitted: 0,
    error: null,
    resumeAt: null,
    left: [],
    partMissing: [],
    unconfirmed: [],
    files: [],
  };
}

it('breaks an enumeration behind commas and keeps each part whole', () => {
  const text = '  left: lists (1 partition), list_members (12 partitions), tags (3 partitions)';
  expect(wrapped(text, 40)).toEqual([
    '  left: lists (1 partition),',
    '      list_members (12 partitions),',
    '      tags (3 partitions)',
  ]);
  expect(wrapped(text, 10)).toHaveLength(3);
});

it('leaves text that fits unchanged, and all text where the output is not a terminal', () => {
  expect(wrapped('  a, b', 6)).toEqual(['  a, b']);
  expect(wrapped('  a, b', null)).toEqual(['  a, b']);
});

function copied(name: string, sink: string): EndedCopy {
  const connector = { name, sink: { name: sink }, downloads: null } as unknown as ConnectorSettings;
  const end: CopyEnd = {
    connector: name as ConnectorName,
    state: 'begun',
    rows: 10,
    deleted: 0,
    entities: 2,
    withoutVersions: name === 'two' ? ['lists' as EntityName] : [],
    newestSeq: 17,
    toSink: 'id-of-pg',
    isPaused: false,
  };
  const [from, to] = ['main', 'pg'].map((one) => ({ name: one }) as SinkSettings);
  if (from === undefined || to === undefined) throw new TypeError('There should be two sinks');
  return { connector, end, from, to, program: 'cs' };
}

it('says what holds for all copied connectors once', () => {
  const copies = [copied('one', 'main'), copied('two', 'main'), copied('three', 'pg')];
  expect(copies.map((copy) => copiedText(copy).length)).toEqual([1, 2, 1]);
  expect(copiedText(copied('two', 'main'))[1]).toContain('versions of rows (history) of lists are not in pg');
  expect(copyEndText(copies)).toEqual([
    'Change numbers (_seq) are the same in pg: consumers continue with the number they have, and see a new sink id (id-of-pg).',
    'Next: set "sink: pg" for one, two, three in the config, and restart the workers. Until then syncs are refused (exit code 2).',
    'What is in main stays as it was, and is not synced there again. To continue there instead: cs copy --from main --reopen one two three',
  ]);
  expect(copyEndText([])).toEqual([]);
});

const runs: readonly ShownRun[] = (['sync', 'backfill'] as const).map((kind) => ({
  run: '20261121T152528492Z-4b72c77d' as RunId,
  kind,
  connector: 'newsletter' as ConnectorName,
  sink: 'main',
  state: 'interrupted',
  startedAt: instant(0),
  finishedAt: instant(200_000),
  continues: null,
  report: null,
}));

describe('the table of runs', () => {
  it.each([null, 100, 80, 60, 45])('fits a screen of %s columns, and names each run', (width) => {
    const lines = runsTable(runs, width);
    expect(lines.filter((line) => line.length > (width ?? Infinity))).toEqual([]);
    expect(lines.filter((line) => line.includes('20261121T152528492Z-4b72c77d'))).toHaveLength(2);
    expect(lines.join('\n')).toContain('3 min 20 s');
  });

  it('names the sink of each run where there are several', () => {
    expect(runsTable(runs, null)[0]).not.toContain('sink');
    const [first, ...others] = runs;
    if (first === undefined) throw new TypeError('There should be a run');
    const lines = runsTable([{ ...first, sink: 'pg' }, ...others], null);
    expect(lines[0]).toMatch(/connector +sink +kind/);
    expect(lines.slice(1).map((line) => line.split(/ +/)[2])).toEqual(['pg', 'main']);
  });
});

const record = {
  id: 'a1',
  title: 'A title of some length',
  note: null,
  tags: ['x', 'y'],
  big: 12345678901234567890n,
};

it('shows every column that has a value where there is room', () => {
  expect(answerTable([record], null, ['id'])).toEqual({
    lines: [
      'id  title                   big                   tags',
      'a1  A title of some length  12345678901234567890  ["x","y"]',
    ],
    omitted: [],
  });
});

it('leaves out what has no room, and names it', () => {
  const { lines, omitted } = answerTable([record], 20, ['id']);
  expect(lines).toEqual(['id  tags', 'a1  ["x","y"]']);
  expect(omitted).toEqual(['title', 'big']);
});

it('cuts long values, and makes hostile names and values inert', () => {
  const { lines } = answerTable([{ '\u001b[2J': `\u202e${'long '.repeat(20)}` }], 60, []);
  expect(lines[0]).toBe('\ufffd[2J');
  expect(lines[1]).toMatch(/^\ufffdlong (long ?)*.*…$/);
  expect(Array.from(lines[1] ?? '').length).toBeLessThanOrEqual(40);
});

it('shows what is no record as nothing', () => {
  expect(answerTable(['text', 5, { id: 'a' }], 80, []).lines).toEqual(['id', '', '', 'a']);
});

it('begins with the columns that matter, and lets objects come last', () => {
  const { lines } = answerTable([{ about: { x: 1 }, a: 1, key: 'k' }], null, ['gone', 'key', 'key']);
  expect(lines).toEqual(['key  a  about', 'k    1  {"x":1}']);
});

it('fits a terminal that gives some signs two columns, and marks none', () => {
  const rows = [
    { id: '第三四半期の売上', n: 1 },
    { id: 'e\u0301te\u0301 🎉', n: 2 },
  ];
  expect(answerTable(rows, 19, ['id']).lines).toEqual([
    'id                n',
    '第三四半期の売上  1',
    'e\u0301te\u0301 🎉            2',
  ]);
  expect(answerTable(rows, 11, ['id'])).toEqual({
    lines: ['id', '第三四半期…', 'e\u0301te\u0301 🎉'],
    omitted: ['n'],
  });
});

it.each([
  ['/usr/local/bin/connector-sync', { PATH: '/bin:/usr/local/bin' }, 'connector-sync'],
  ['/clone/dist/main.js', { PATH: '/clone/dist' }, 'npx --no-install connector-sync'],
  ['/clone/node_modules/.bin/connector-sync', { PATH: '/bin' }, 'npx --no-install connector-sync'],
  [
    '/clone/node_modules/.bin/connector-sync',
    { PATH: '/clone/node_modules/.bin', npm_command: 'exec' },
    'npx --no-install connector-sync',
  ],
])('%s with %o is called again as it can be', (script, env, name) => {
  expect(programName(script, env)).toBe(name);
});

it('writes a word as a shell reads it back', () => {
  expect(['a/b-c.yaml', 'my file', "it's"].map(shellWord)).toEqual([
    'a/b-c.yaml',
    "'my file'",
    String.raw`'it'\''s'`,
  ]);
});

describe('the terminal', () => {
  it('redraws in place, and clears the live lines before it writes anything else', () => {
    const { terminal, written } = open({ isTTY: true });
    terminal.redraw(['one', 'two']);
    terminal.redraw(['three']);
    terminal.note('stop');
    terminal.redraw([]);
    expect(written.stderr).toEqual([
      'one\ntwo\n',
      '\u001b[2A\r\u001b[0Jthree\n',
      '\u001b[1A\r\u001b[0J',
      'stop\n',
    ]);
  });

  it('draws no more lines than the screen has: the first and the last ones', () => {
    const { terminal, written, stderr } = open({ isTTY: true });
    Object.assign(stderr, { rows: 4 });
    terminal.redraw(['heading', 'a', 'b', 'c', 'sums']);
    terminal.redraw([]);
    expect(written.stderr).toEqual(['heading\nc\nsums\n', '\u001b[3A\r\u001b[0J']);
  });

  it('reads the width again each time and respects NO_COLOR', () => {
    const { terminal, stderr } = open({ isTTY: true, env: { NO_COLOR: '1' } });
    expect(terminal.style?.()).toEqual({ columns: 120, hasColor: false });
    Object.assign(stderr, { columns: 30 });
    expect(terminal.style?.()).toEqual({ columns: 30, hasColor: false });
    expect(open({ isTTY: true }).terminal.style?.()).toMatchObject({ hasColor: true });
  });

  it('knows a width for results only where standard output is a terminal', () => {
    expect(open({ isTTY: true }).terminal.columns()).toBe(120);
    expect(open({ isTTY: false }).terminal.columns()).toBeNull();
  });

  it('takes the width of $COLUMNS, else 80, where the terminal does not know its own', () => {
    for (const columns of [undefined, 0]) {
      const asked = ({ COLUMNS = '' }): number | undefined => {
        const { terminal, stderr } = open({ isTTY: true, env: { COLUMNS } });
        Object.assign(stderr, { columns });
        return terminal.style?.().columns;
      };
      expect([asked({ COLUMNS: '132' }), asked({ COLUMNS: 'wide' }), asked({})]).toEqual([132, 80, 80]);
    }
  });

  it('is not live in a pipe, on a dumb terminal, or with --json', () => {
    expect(open({ isTTY: false }).terminal.style).toBeNull();
    expect(open({ isTTY: true, env: { TERM: 'dumb' } }).terminal.style).toBeNull();
    expect(open({ isTTY: true, isJson: true }).terminal.style).toBeNull();
  });

  it('scrubs registered secrets on every way out', () => {
    for (const isJson of [true, false]) {
      const { terminal, written, scrubber } = open({ isTTY: true, isJson });
      scrubber.register(new Secret('planted-secret'));
      terminal.print('planted-secret');
      terminal.printJson({ deep: ['planted-secret'] });
      terminal.note('planted-secret');
      terminal.addLine('planted-secret');
      terminal.redraw(['planted-secret']);
      const all = [...written.stdout, ...written.stderr].join('');
      expect(all).not.toContain('planted');
      expect(all).toContain('[secret]');
    }
  });

  it('drops the remaining output silently when the reader has gone', () => {
    const { terminal, written, fail } = open({ isTTY: false });
    terminal.print('first');
    fail(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    terminal.print('second');
    expect(written.stdout).toEqual(['first\n']);
    expect(written.stderr).toEqual([]);
    expect(terminal.hasLostOutput()).toBe(false);
  });

  it('says that its output cannot be written, and remembers it', () => {
    const { terminal, written, fail } = open({ isTTY: false });
    terminal.print('first');
    fail(Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }));
    expect(written.stderr.join('')).toContain('no space left on device');
    expect(terminal.hasLostOutput()).toBe(true);
  });
});

describe('JSON for machines', () => {
  it('keeps every digit, turns maps and sets into data, and shows no secret', () => {
    const value = {
      id: 9_007_199_254_740_993n,
      map: new Map([['a', new Set([1])]]),
      secret: new Secret('x'),
      at: new Date(0),
      gone: undefined,
      odd: Number.NaN,
    };
    expect(jsonText(value)).toBe(
      '{"id":9007199254740993,"map":{"a":[1]},"secret":"[secret]","at":"1970-01-01T00:00:00.000Z","odd":null}',
    );
  });

  it('keeps a member called __proto__ as data', () => {
    expect(jsonText(JSON.parse('{"__proto__":{"polluted":true}}'))).toBe('{"__proto__":{"polluted":true}}');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('a table', () => {
  it('aligns, leaves out empty columns, and makes cells inert', () => {
    const columns = [
      { title: 'name', align: 'left' },
      { title: 'rows', align: 'right' },
      { title: 'notes', align: 'left' },
    ] as const;
    expect(
      textTable(columns, [
        ['🎉', '1,000', ''],
        ['a\u001b[31m', '5', ''],
      ]),
    ).toEqual(['name     rows', '🎉      1,000', 'a�[31m      5']);
  });
});

function open(options: {
  readonly isTTY: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly isJson?: boolean;
}): {
  readonly terminal: Terminal;
  readonly written: { readonly stdout: string[]; readonly stderr: string[] };
  readonly stderr: Output;
  readonly scrubber: ReturnType<typeof createScrubber>;
  readonly fail: (error: Error) => void;
} {
  const written = { stdout: [] as string[], stderr: [] as string[] };
  const listeners: ((error: Error) => void)[] = [];
  const output = (name: 'stdout' | 'stderr'): Output => ({
    write: (text) => written[name].push(String(text)),
    on: (_, listener) => name === 'stdout' && listeners.push(listener),
    isTTY: options.isTTY,
    columns: 120,
  });
  const stderr = output('stderr');
  const scrubber = createScrubber();
  const terminal = openTerminal({
    stdout: output('stdout'),
    stderr,
    env: options.env ?? {},
    scrubber,
    isJson: options.isJson ?? false,
  });
  return {
    terminal,
    written,
    stderr,
    scrubber,
    fail: (error) => listeners.forEach((listen) => listen(error)),
  };
}

describe('exit codes', () => {
  it.each<[RunOutcome, ExitCode]>([
    ['ok', 0],
    ['partial', 0],
    ['degraded', 3],
    ['failed', 1],
    ['interrupted', 130],
  ])('a run that is %s ends with %i', (outcome, code) => {
    expect(exitCodeOfReport({ outcome, error: null, resumeAt: null, entities: [] })).toBe(code);
  });

  it('a run that the service put off ends with 3: what is missing was not asked to be', () => {
    const resumeAt = '2026-03-01T10:15:00.000Z';
    expect(exitCodeOfReport({ outcome: 'partial', error: null, resumeAt, entities: [] })).toBe(3);
  });

  it.each<[ErrorCode, ExitCode]>([
    ['USAGE', 2],
    ['CONFIG_INVALID', 2],
    ['DEFINITION_INVALID', 2],
    ['IDENTITY_CHANGED', 2],
    ['CONNECTOR_AMBIGUOUS', 2],
    ['SINK_INCOMPATIBLE', 2],
    ['SEARCH_INVALID', 2],
    ['AUTH_FAILED', 4],
    ['CONNECTOR_BUSY', 5],
    ['INTERRUPTED', 130],
    ['THROTTLED', 3],
    ['CANCELLED', 130],
    ['CONNECTOR_UNKNOWN', 1],
    ['NETWORK', 1],
    ['SINK_FULL', 1],
    ['SEARCH_TOO_SLOW', 1],
  ])('%s ends with %i, thrown or reported', (code, expected) => {
    expect(exitCodeOfError(new SyncError('x', { code, recovery: 'stop' }))).toBe(expected);
    const error = { code, recovery: 'stop', message: 'x' } as const;
    expect(exitCodeOfReport({ outcome: 'failed', error, resumeAt: null, entities: [] })).toBe(expected);
  });

  it.each<[RunOutcome, ErrorCode | null, ExitCode]>([
    ['ok', null, 6],
    ['partial', null, 6],
    ['degraded', null, 6],
    ['interrupted', null, 6],
    ['failed', 'NETWORK', 1],
    ['failed', 'AUTH_FAILED', 4],
    ['failed', 'CONNECTOR_BUSY', 6],
  ])('a run that is %s (%s) and withheld deletes ends with %i, the gravest', (outcome, code, expected) => {
    const error = code === null ? null : ({ code, recovery: 'stop', message: 'x' } as const);
    const entities = [{ withheld: 0 }, { withheld: 1 }];
    expect(exitCodeOfReport({ outcome, error, resumeAt: null, entities })).toBe(expected);
  });

  it('an error of unknown origin is a failure', () => {
    expect(exitCodeOfError(new TypeError('x'))).toBe(1);
    expect(exitCodeOfError('x')).toBe(1);
  });

  it('several connectors end with the first of 2, 4, 1, 6, 5, 3, 130', () => {
    const order: readonly ExitCode[] = [2, 4, 1, 6, 5, 3, 130, 0];
    for (const [index, code] of order.entries()) {
      expect(gravestExitCode(order.slice(index).reverse())).toBe(code);
    }
    expect(gravestExitCode([])).toBe(0);
  });
});

import { nothingDone } from '../../../src/engine/run-tally.ts';
import { describe, expect, it } from 'vitest';
import { toConfirmLines } from '../../../src/wording/run-report-table.ts';
import { runReportText } from '../../../src/cli/output/show-run.ts';
import { isConnectorName, isDeclaredName } from '../../../src/core/names.ts';
import { noCounts } from '../../../src/core/records.ts';
import type { EntityReport, RunReport } from '../../../src/sinks/run-report.ts';

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

  it('never wraps for the names of proofs: where they are too long they stand below the row', () => {
    const proofs = { single: 5, seam: 0, token: 0, keyset: 1 };
    const counts = { ...noCounts, fetched: 24_000, inserted: 1, unchanged: 22_999, duplicate: 1000 };
    const lines = runReportText(report({ proofs, counts, incremental: 5 }), 80, { isVerbose: true });
    expect(lines[3]).toBe('      changes only (single, keyset); 1 of 6 listings in full');
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

  it('says what came where the run paused and the API did not ask for it', () => {
    const resumeBecause = 'refused by the network in front of api.example.com (HTTP 403)';
    const paused = {
      ...report(),
      outcome: 'partial' as const,
      resumeAt: '2026-03-01T10:15:00.000Z',
      resumeBecause,
    };
    const text = runReportText(paused, null).join('\n');
    expect(text).toContain(
      '! refused by the network in front of api.example.com (HTTP 403), so no more calls are made until 2026-03-01T10:15:00.000Z; run it again then',
    );
    expect(text).not.toContain('asked to wait');
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
      '  ! email_activity_events: 310 of 610 look deleted; kept: 310 in 24 hours (50.8 %) are over the limit (more than 20 % and more than 20 rows in 24 hours)',
      '    check at the source; if they are deleted there: npx cs sync newsletter --allow-deletes; to look at single records: npx cs audit newsletter/email_activity_events',
    ]);
    expect(withheld({ withholding: { ...withholding, deletedInDay: 90 } }).at(-2)).toBe(
      '  ! email_activity_events: 310 of 610 look deleted, 90 more were deleted in the last 24 hours; kept: 400 in 24 hours (65.6 %) are over the limit (more than 20 % and more than 20 rows in 24 hours)',
    );
    expect(withheld({ withholding: { ...withholding, dayAgo: 8 } }).at(-2)).toBe(
      '  ! email_activity_events: 310 look deleted (8 rows were stored a day ago); kept: 310 in 24 hours are over the limit (more than 20 % and more than 20 rows in 24 hours)',
    );
    const below = { ...withholding, dayAgo: 2000, deletedInDay: 200, below: 300 };
    expect(withheld({ withheld: 100, withholding: below }).at(-2), 'what is counted adds up').toBe(
      '  ! email_activity_events: 100 of 2,000 look deleted, 300 more would go with the records above them, 200 more were deleted in the last 24 hours; kept: 600 in 24 hours (30 %) are over the limit (more than 20 % and more than 20 rows in 24 hours)',
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
      '  ! email_activity_events: 6 look deleted and would take 4,730 list_members, 40 interests, 3 tags, 2 other rows along; all kept (limit: more than 20 % and more than 20 rows in 24 hours)',
    );
    expect(withheld({ withheld: 1, withheldBecause: 'empty' }).at(-2)).toBe(
      '  ! email_activity_events: the listing came back empty; 1 stored row looks deleted; kept until a second complete read agrees (limit: more than 20 % and more than 20 rows in 24 hours)',
    );
    expect(withheld({ withheld: 54, withheldBecause: 'replaced' }).at(-2)).toBe(
      '  ! email_activity_events: none of the 54 stored rows came back, only other records; kept. Is it still the same account?',
    );
    expect(withheld({ withheld: 54, withholding: null }).at(-2)).toBe(
      '  ! email_activity_events: 54 look deleted; kept',
    );
  });

  it('says in one line what is not yet certain to be gone', () => {
    expect(runReportText(report({ pending: 12 }), null).at(-1)).toBe(
      '  may be deleted, kept until that is confirmed: 12 of email_activity_events',
    );
  });

  it('says how many rows are still to be asked for, by how many runs, and when they will be done', () => {
    const waiting = {
      ...report({ pending: 8_200, toConfirm: 8_200 }),
      confirmation: { callsPerRun: 1_800, requestsPerSecond: 3 },
      finishedAt: '2026-03-01T10:00:00.000Z',
    };
    const text =
      'still to be asked for by get: 8,200 of email_activity_events, in the next 5 runs, up to 1,800 in each (45 min 33 s of calls at 3 a second)';
    expect(runReportText(waiting, null).at(-1)).toBe(`  ${text}`);
    expect(toConfirmLines(waiting, 3_600_000)).toEqual([
      `${text}; at its schedule by about 2026-03-01T15:00Z`,
    ]);
    const one = { ...waiting, ...report({ pending: 90, toConfirm: 90 }) };
    expect(toConfirmLines(one, null)).toEqual([
      'still to be asked for by get: 90 of email_activity_events, in the next run (30.0 s of calls at 3 a second)',
    ]);
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

import { nothingDone } from '../../../src/engine/nothing-done.ts';
import { describe, expect, it } from 'vitest';
import { runReportText } from '../../../src/cli/tables/run-report-text.ts';
import { isConnectorName, isDeclaredName } from '../../../src/core/names.ts';
import { noCounts } from '../../../src/core/records.ts';
import type { EntityReport, RunReport } from '../../../src/sinks/run-report.ts';

describe('the text of a run', () => {
  it('is whole where nobody looks at a screen', () => {
    const [, titles] = runReportText(report({ setAside: 3 }), null);
    expect(titles?.trim().split(/ +/)).toEqual(
      'entity read inserted updated unchanged duplicate deleted pages walks proof notes'.split(' '),
    );
  });

  it('drops number columns that hold only zeros where the table would wrap', () => {
    const lines = runReportText(report({ setAside: 3 }), 80);
    expect(lines[1]?.trim().split(/ +/)).toEqual('entity read inserted pages walks proof notes'.split(' '));
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('gives notes a line of their own where it would still wrap', () => {
    const lines = runReportText(report({ setAside: 12, unordered: 3, extraFields: 7 }), 80);
    expect(lines[1]).not.toContain('notes');
    expect(lines[2]).toMatch(/^ {2}email_activity_events /);
    expect(lines[3]).toBe('      12 set aside, 3 in unknown order, 7 fields in _extra');
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('never wraps for the sake of a proof: one that is too long goes below its row', () => {
    const proofs = { single: 5, seam: 0, token: 0, keyset: 1 };
    const counts = { ...noCounts, fetched: 24_000, inserted: 1, unchanged: 22_999, duplicate: 1000 };
    const lines = runReportText(report({ proofs, counts, incremental: 5 }), 80);
    expect(lines[3]).toBe('      single, keyset; 5 only for what changed');
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('tells a row as a sentence where its numbers alone are too wide', () => {
    const counts = { ...noCounts, fetched: 3340, inserted: 34, updated: 13, unchanged: 3223, duplicate: 70 };
    const lines = runReportText(report({ counts, deleted: 27, incremental: 5 }), 80);
    expect(lines.slice(1, 4)).toEqual([
      '  email_activity_events: read 3,340, inserted 34, updated 13, unchanged 3,223,',
      '      duplicate 70, deleted 27, pages 12, walks 12, seam,',
      '      5 only for what changed',
    ]);
    expect(Math.max(...lines.slice(1).map((line) => line.length))).toBeLessThanOrEqual(80);
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
      '  1 call, 2 retries, 46.0 s of waiting over parallel calls, 1 KiB',
    );
  });

  it('says of a run that goes on what it does not read again', () => {
    expect(runReportText({ ...report(), continues: 'r0' as RunReport['run'] }, null)[0]).toContain(
      'went on with r0 (what that run had sealed is not read again)',
    );
  });

  it('says until when the service asked to wait', () => {
    const resumeAt = '2026-03-01T10:15:00.000Z';
    expect(runReportText({ ...report(), outcome: 'partial', resumeAt }, null)).toContain(
      '  ! the service asked to wait until 2026-03-01T10:15:00.000Z; run it again then',
    );
  });

  it('says what is left for the next run', () => {
    const left = [
      { entity: entity('lists'), partitions: 1 },
      { entity: entity('list_members'), partitions: 1200 },
    ];
    expect(runReportText({ ...report(), left }, null)).toContain(
      '  left for the next run: lists (1 partition), list_members (1,200 partitions)',
    );
  });

  it('says of withheld deletes how many, why, and what to do', () => {
    const share = runReportText(report({ withheld: 340, withheldBecause: 'share' }), null, 'npx cs');
    expect(share.slice(-2)).toEqual([
      '  ! 340 rows of email_activity_events seem to be gone and are kept: that is more than the guards of the config let pass',
      '    if that is right: npx cs sync newsletter --allow-deletes; to look first: npx cs audit newsletter/email_activity_events',
    ]);
    const empty = runReportText(report({ withheld: 1, withheldBecause: 'empty' }), null);
    expect(empty.at(-2)).toBe(
      '  ! 1 row of email_activity_events seems to be gone and is kept: it came back empty, which another run must see too',
    );
  });

  it('says in one line what is not yet certain to be gone', () => {
    expect(runReportText(report({ pending: 12 }), null).at(-1)).toBe(
      '  not yet certain to be gone, so kept until a later run has asked or read again: 12 of email_activity_events',
    );
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
    files: [],
  };
}

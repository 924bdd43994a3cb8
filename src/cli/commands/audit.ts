import { auditEntity, type Audit } from '../../app/audit-entity.ts';
import { openSharingApp } from '../../app/open-app.ts';
import { usage } from '../../core/usage-error.ts';
import { entityTarget } from '../../settings/choices.ts';
import type { KeyDifferences, KeyGroup } from '../../sinks/compare-keys.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { printable, count, counted } from '../../telemetry/format.ts';
import { command, type CommandContext, wholeNumber } from '../command.ts';
import { exitCodeOfReport, exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { showRun } from '../output/show-run.ts';

const defaultLimit = 20;
/** They are held in memory and printed. */
const mostKeys = 100_000;

export const audit = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options: {
    '--limit <n>': {
      text: 'how many keys to list for each kind of difference',
      default: String(defaultLimit),
    },
  },
  help: `
Costs the calls of a full read of the entity and of its parents; the copy that it is compared with is in a private
temporary folder, removed at the end. Rows that changed since the last sync differ too. Values are compared, so rows
that were edited in the sink show; fields that the definition calls volatile do not count.

Exit codes: 0 equal, 3 different or not proven to be read completely; those of a sync where reading failed.

Example:
  $ connector-sync audit newsletter/list_members`,
  run: async (context, flags, name) => {
    const settings = await context.settings('access', 'redis');
    const target = entityTarget(settings, name);
    const { connector, entity } = target;
    const limit = wholeNumber('--limit', flags.limit, mostKeys);
    if (!connector.entities.has(entity.name)) {
      throw usage(`${name}: the config leaves ${entity.name} out, so no sync reads it.`);
    }
    const { clock, terminal, signal } = context;
    const note = (line: string): void => terminal.note(line);
    await using app = await openSharingApp({ settings, clock, command: 'connector-sync audit', note });
    const audit = await showRun(context, connector.name, null, ({ onEvent }) =>
      auditEntity(app, target, { limit, onEvent, signal }),
    );
    const { report, differences, doubts } = audit;
    if (differences === null) return tellUnread(context, name, report);
    const isEqual = numberOf(differences) === 0;
    terminal.printJson({ kind: 'audit', target: name, isEqual, isProven: doubts.length === 0, ...audit });
    terminal.print(...auditText(name, audit, differences));
    if (differences.extra.count > 0) {
      terminal.print(`  why a stored row is kept: ${context.program} explain ${name} --key ...`);
    }
    if (differences.edited.count > 0) {
      terminal.print(`  to store one again as the API has it: ${context.program} refetch ${name} --key ...`);
    }
    return isEqual && doubts.length === 0 ? exitCodes.ok : exitCodes.degraded;
  },
});

/** A reading that ended early says nothing of what is stored. */
function tellUnread({ terminal }: CommandContext, name: string, report: RunReport): ExitCode {
  terminal.printJson({ kind: 'audit', target: name, report, differences: null });
  const why = report.error?.message ?? report.outcome;
  terminal.note(`${name}: nothing was compared, because it could not be read completely: ${printable(why)}`);
  return report.outcome === 'partial' ? exitCodes.degraded : exitCodeOfReport(report);
}

function auditText(name: string, { report, doubts }: Audit, differences: KeyDifferences): readonly string[] {
  const { same, missing, extra, changed, edited } = differences;
  const alike = same + changed.count + edited.count;
  return [
    `${name}: ${counted(alike + missing.count, 'row')} at the API, ${count(alike + extra.count)} stored, ${count(same)} the same (${counted(report.calls, 'call')})`,
    ...groupText('missing: at the API, not stored', missing),
    ...groupText('extra: stored, not at the API', extra),
    ...groupText('changed: stored with different content', changed),
    ...groupText('edited: stored values that no sync has written', edited),
    ...doubts.map((doubt) => `  ! not certain: ${doubt}`),
    ...(numberOf(differences) === 0 ? ['  no differences'] : []),
  ];
}

function numberOf({ missing, extra, changed, edited }: KeyDifferences): number {
  return missing.count + extra.count + changed.count + edited.count;
}

function groupText(title: string, { count: rows, first }: KeyGroup): readonly string[] {
  if (rows === 0) return [];
  const more = rows - first.length;
  return [
    `  ${title}: ${count(rows)}`,
    ...first.map((key) => `    ${printable(key)}`),
    ...(more > 0 && first.length > 0 ? [`    and ${count(more)} more`] : []),
  ];
}

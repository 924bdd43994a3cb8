import {
  adoptIdentity,
  changedAddress,
  changedIdentity,
  sampleConnector,
  type Sample,
} from '../../app/adopt-connector.ts';
import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import { connectorNamed } from '../../settings/choices.ts';
import type { ConnectorSettings } from '../../settings/settings.ts';
import type { IdentityDifference } from '../../sinks/acquire-errors.ts';
import { printable, count } from '../../telemetry/format.ts';
import { showProgress } from '../../telemetry/show-progress.ts';
import { command, type CommandContext } from '../command.ts';
import { exitCodeOfReport, exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { rightColumns, indentedTable, leftColumns } from '../output/text-table.ts';

export const adopt = command({
  argument: ['<connector>', 'a name from the config'],
  options: { '--yes': 'accept the new address; without this, only show what is new' },
  help: `
For another scheme, host or port (a changed api.baseUrl, an edited definition), another account or connector id, or after
a sync that seemed to read another account. With --yes the credentials go to the new address, a sample of the records
there (at most 60 calls) is compared with what is stored, and refused where they disagree; without it, nothing is sent to
a new address. Nothing is deleted or reset. Deletes are withheld (exit code 6) until a full sync has found every stored
record at the new address. Where nothing is stored, nothing needs to be adopted.

Exit codes: 0 nothing speaks against it, 2 the sample disagrees; those of a sync where the sample could not be read.

Examples:
  $ connector-sync adopt newsletter
  $ connector-sync adopt newsletter --yes
  $ connector-sync sync newsletter --full`,
  run: async (context, { yes: isSure }, name) => {
    const { terminal, clock, signal, program } = context;
    const settings = await context.settings('access');
    const connector = connectorNamed(settings, name);
    const change = await changedAddress(connector, settings);
    const { differences: moved } = change;
    if (moved.length > 0) terminal.print(...differenceText(name, moved));
    if (moved.length > 0 && !isSure) {
      terminal.printJson({ connector: name, isAdopted: false, differences: moved });
      terminal.print(
        `Nothing was sent to the new address. To send the credentials there, compare the records, and adopt it: ${program} adopt ${name} --yes`,
      );
      return exitCodes.ok;
    }
    const command = 'connector-sync adopt';
    await using app = await openApp({ settings, clock, command, adopts: connector.name });
    const found = await changedIdentity(app, connector, change, signal);
    const { identity, differences, isDoubted, rows, mustSignIn } = found;
    if (differences.length === 0 && !isDoubted) {
      terminal.printJson({ connector: name, isAdopted: false, differences });
      terminal.print(
        `${name}: the sink holds this address and connector id already; there is nothing to adopt.`,
      );
      return exitCodes.ok;
    }
    if (differences.length > moved.length) terminal.print(...differenceText(name, differences));
    const sample = mustSignIn ? null : await sampled(app, connector, context);
    if (sample !== null && sample.report.outcome !== 'ok' && sample.report.outcome !== 'partial') {
      return tellUnread(context, name, sample);
    }
    terminal.print(...(sample === null ? [] : sampleText(sample)));
    const isAgreed = sample === null || sample.agrees;
    // At the same address a sync has stopped, and has shown both what is stored and what is served: a person decides.
    const mayAdopt = isAgreed || differences.length === 0;
    const isAdopted = mayAdopt && isSure;
    if (isAdopted) await adoptIdentity(connector, identity, clock);
    const entities = sample?.entities ?? [];
    terminal.printJson({ connector: name, isAdopted, isAgreed, differences, rows, entities });
    if (!mayAdopt) {
      terminal.print(
        `${name}: not adopted, the new address serves other records. Correct the config, or give the other account another connector name. What is stored stays.`,
      );
      return exitCodes.usage;
    }
    terminal.print(
      isAdopted
        ? `${name}: adopted${mustSignIn ? `, and nothing was compared: the new address needs a sign-in, "${program} login ${name}"` : ''}. Deletes are withheld until "${program} sync ${name} --full" has found every stored record.`
        : `Nothing was changed.${isAgreed ? '' : ' The API serves other records than those that are stored.'} To adopt it: ${program} adopt ${name} --yes`,
    );
    return exitCodes.ok;
  },
});

async function sampled(app: App, connector: ConnectorSettings, context: CommandContext): Promise<Sample> {
  const { terminal, clock, signal } = context;
  await using progress = showProgress(connector.name, terminal, clock);
  return await sampleConnector(app, connector, { onEvent: progress.onEvent, signal });
}

function tellUnread({ terminal }: CommandContext, name: string, { report }: Sample): ExitCode {
  terminal.printJson({ connector: name, isAdopted: false, report });
  const why = report.error?.message ?? report.failures[0]?.message ?? report.outcome;
  terminal.note(`${name}: not adopted, the sample could not be read: ${printable(why)}`);
  const code = exitCodeOfReport(report);
  return code === exitCodes.ok ? exitCodes.failed : code;
}

function differenceText(name: string, differences: readonly IdentityDifference[]): readonly string[] {
  const rows = differences.map(({ what, stored, given }) => [what, stored, given]);
  return [`${name}:`, ...indentedTable(differenceColumns, rows)];
}

function sampleText(sample: Sample): readonly string[] {
  const rows = sample.entities.map(({ entity, read, equal, changed, added, missing }) => [
    entity,
    count(read),
    count(equal),
    count(changed),
    count(added),
    missing === null ? '' : count(missing),
  ]);
  return indentedTable(sampleColumns, rows);
}

const differenceColumns = leftColumns('what', 'stored', 'now');

const sampleColumns = [
  ...leftColumns('entity'),
  ...rightColumns('sampled', 'equal', 'changed', 'not stored', 'look deleted'),
];

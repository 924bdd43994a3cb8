import type { Command } from 'commander';
import { usage } from '../../core/usage-error.ts';
import { openAdministration } from '../../source/api/open-administration.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';
import { fittingTable } from '../output/fitting-table.ts';
import { openPatientApp } from '../output/tell-waits.ts';
import { leftColumns } from '../output/text-table.ts';

interface WorkspaceFlags {
  readonly name?: string;
  readonly status?: string;
}

export function addWorkspaces(workspaces: Command, enter: Enter): void {
  workspaces.addHelpText('after', '\nExample:\n  $ connector-sync workspaces list');
  workspaces
    .command('list')
    .description('List every workspace that the credentials may see.')
    .option('--name <text>', 'only names that contain the text (case-insensitive)')
    .option('--status <status>', 'active or inactive; the connectors of an inactive one are switched off')
    .addHelpText('after', '\nExample:\n  $ connector-sync workspaces list --name acme --status active')
    .action((flags: WorkspaceFlags) => enter((context) => runList(context, flags)));
}

async function runList(context: CommandContext, { name, status }: WorkspaceFlags): Promise<ExitCode> {
  const settings = loadConfig(context, 'api', 'access');
  const { terminal, signal } = context;
  const filter = { nameContains: name ?? null, status: statusOf(status) };
  await using app = await openPatientApp(context, settings, 'workspaces');
  const found = await openAdministration(app.client, settings.api.baseUrl).workspaces(filter, signal);
  terminal.printJson({ workspaces: found });
  if (found.length === 0) terminal.print('No workspaces.');
  const rows = found.map((one) => [one.name, one.id, one.status ?? '', one.createdAt ?? '']);
  if (rows.length > 0) {
    for (const line of fittingTable(columns, rows, terminal.columns())) terminal.print(line);
  }
  return exitCodes.ok;
}

function statusOf(text: string | undefined): 'active' | 'inactive' | null {
  if (text === undefined || text === 'active' || text === 'inactive') return text ?? null;
  throw usage(`--status: expected active or inactive, got "${text}".`);
}

const columns = leftColumns('name', 'id', 'status', 'created');

import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { usage } from '../../core/usage-error.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { toTheSecond } from '../output/about-time.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { textTable, leftColumns } from '../output/text-table.ts';
import { shellWord } from '../program-name.ts';
import { openApplications } from './applications/open-applications.ts';
import { madeUpSecret } from './serve/choose-application.ts';
import { defaultDataFolder, servedOrganization } from './serve/served-accounts.ts';

interface ApplicationFlags {
  readonly data: string;
  readonly organization?: string;
}

const examples = `
Examples:
  $ connector-sync applications create
  $ connector-sync applications create --organization acme
  $ connector-sync applications list
  $ connector-sync applications delete client-4f1c09a7b2d3

Changes apply at once, even while "connector-sync serve" runs on the folder. Organizations see nothing of each other.`;

export function addApplications(applications: Command, enter: Enter): void {
  applications.addHelpText('after', examples);
  const withData = (command: Command): Command =>
    command.option('--data <folder>', 'of the service', defaultDataFolder);

  withData(applications.command('create'))
    .description('Generate a client id and a secret, and print them; the secret is shown this once.')
    .option('--organization <name>', 'owning organization; created if missing', 'default')
    .action((flags: ApplicationFlags) => enter((context) => runCreate(context, flags)));

  withData(applications.command('list'))
    .description('List client ids, organizations and creation times. Secrets cannot be shown.')
    .option('--organization <name>', 'of this one alone')
    .action((flags: ApplicationFlags) => enter((context) => runList(context, flags)));

  withData(applications.command('delete'))
    .description('Delete a client: its secret and tokens stop working. Workspaces and connectors stay.')
    .argument('<client-id>', 'see "connector-sync applications list"')
    .action((clientId: string, flags: ApplicationFlags) =>
      enter((context) => runDelete(context, clientId, flags)),
    );
}

async function runCreate(
  { terminal, clock, cwd }: CommandContext,
  { data, organization = servedOrganization }: ApplicationFlags,
): Promise<ExitCode> {
  using applications = await openApplications(resolve(cwd, data), clock, { isMade: true });
  const clientSecret = madeUpSecret().reveal();
  const clientId = `client-${randomBytes(6).toString('hex')}`;
  applications?.put({ organizationName: organization, clientId, clientSecret });
  terminal.printJson({ organization, clientId, clientSecret });
  terminal.print(`New client of organization ${organization}; its secret is shown this once:`);
  terminal.print(`  client id      ${clientId}`);
  terminal.print(`  client secret  ${clientSecret}`);
  return exitCodes.ok;
}

async function runList(
  { terminal, clock, cwd }: CommandContext,
  { data, organization }: ApplicationFlags,
): Promise<ExitCode> {
  using applications = await openApplications(resolve(cwd, data), clock, { isMade: false });
  const found = applications?.list(organization ?? null) ?? [];
  terminal.printJson({
    applications: found.map(({ clientId, organizationName, organizationId, createdAt }) => ({
      clientId,
      organization: organizationName,
      organizationId,
      createdAt,
    })),
  });
  const rows = found.map(({ clientId, organizationName, createdAt }) => [
    clientId,
    organizationName,
    toTheSecond(Date.parse(createdAt)),
  ]);
  for (const line of rows.length === 0
    ? [`There are no clients in ${data} yet.`]
    : textTable(columns, rows)) {
    terminal.print(line);
  }
  return exitCodes.ok;
}

const columns = leftColumns('client id', 'organization', 'made');

async function runDelete(
  { terminal, clock, cwd, program }: CommandContext,
  clientId: string,
  { data }: ApplicationFlags,
): Promise<ExitCode> {
  using applications = await openApplications(resolve(cwd, data), clock, { isMade: false });
  if (applications?.delete(clientId) !== true) {
    throw usage(
      `There is no client ${clientId} in ${data}. See "${program} applications list --data ${shellWord(data)}".`,
    );
  }
  terminal.printJson({ deleted: clientId });
  terminal.print(`${clientId} is deleted: its secret and tokens stop working.`);
  return exitCodes.ok;
}

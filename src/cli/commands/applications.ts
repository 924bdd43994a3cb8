import type { Command } from 'commander';
import { runApplicationsCreate } from './applications/create.ts';
import { runApplicationsDelete } from './applications/delete.ts';
import { runApplicationsList } from './applications/list.ts';
import type { Enter } from '../command-context.ts';
import { defaultDataFolder } from './serve/served-accounts.ts';

export interface ApplicationFlags {
  readonly data: string;
  readonly organization?: string;
}

const examples = `
Examples:
  $ connector-sync applications create
  $ connector-sync applications create --organization acme
  $ connector-sync applications list
  $ connector-sync applications delete client-4f1c09a7b2d3

They work while "connector-sync serve" runs on the folder, which obeys them at once. Organizations see nothing of each other.`;

export function addApplications(applications: Command, enter: Enter): void {
  applications.addHelpText('after', examples);
  const withData = (command: Command): Command =>
    command.option('--data <folder>', 'of the service', defaultDataFolder);

  withData(applications.command('create'))
    .description('Generate a client id and a secret, and print them; the secret is shown this once.')
    .option('--organization <name>', 'owning organization; created if missing', 'default')
    .action((flags: ApplicationFlags) => enter((context) => runApplicationsCreate(context, flags)));

  withData(applications.command('list'))
    .description('List client ids, organizations and creation times. Secrets cannot be shown.')
    .option('--organization <name>', 'of this one alone')
    .action((flags: ApplicationFlags) => enter((context) => runApplicationsList(context, flags)));

  withData(applications.command('delete'))
    .description('Delete a client: its secret and tokens stop working. Workspaces and connectors stay.')
    .argument('<client-id>', 'see "connector-sync applications list"')
    .action((clientId: string, flags: ApplicationFlags) =>
      enter((context) => runApplicationsDelete(context, clientId, flags)),
    );
}

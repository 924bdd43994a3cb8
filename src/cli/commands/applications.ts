import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { usage } from '../../core/usage-error.ts';
import { toTheSecond } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { shellWord } from '../environment.ts';
import { leftColumns, textTable } from '../output/text-table.ts';
import {
  openStoredState,
  defaultDataFolder,
  servedOrganization,
  madeUpSecret,
} from './serve/choose-application.ts';

const dataOption = { '--data <folder>': { text: 'of the service', default: defaultDataFolder } } as const;

export const applications = command({
  help: `
Examples:
  $ connector-sync applications create
  $ connector-sync applications create --organization acme
  $ connector-sync applications list
  $ connector-sync applications delete client-4f1c09a7b2d3

Changes apply at once, even while "connector-sync serve" runs on the folder. Organizations see nothing of each other.`,
  commands: {
    create: command({
      description: 'Generate a client id and a secret, and print them; the secret is shown this once.',
      options: {
        ...dataOption,
        '--organization <name>': {
          text: 'owning organization; created if missing',
          default: servedOrganization,
        },
      },
      run: async ({ terminal, clock, cwd }, { data, organization }) => {
        using state = await openStoredState(resolve(cwd, data), clock, { isMade: true });
        const clientSecret = madeUpSecret().reveal();
        const clientId = `client-${randomBytes(6).toString('hex')}`;
        state?.applications.put({ organizationName: organization, clientId, clientSecret });
        terminal.printJson({ organization, clientId, clientSecret });
        terminal.print(
          `New client of organization ${organization}; its secret is shown this once:`,
          `  client id      ${clientId}`,
          `  client secret  ${clientSecret}`,
        );
      },
    }),
    list: command({
      description: 'List client ids, organizations and creation times. Secrets cannot be shown.',
      options: { ...dataOption, '--organization <name>': 'of this one alone' },
      run: async ({ terminal, clock, cwd }, { data, organization }) => {
        using state = await openStoredState(resolve(cwd, data), clock, { isMade: false });
        const all = state?.applications.list() ?? [];
        const found = all.filter(
          (one) => organization === undefined || one.organizationName === organization,
        );
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
        if (rows.length === 0) terminal.print(`There are no clients in ${data} yet.`);
        else terminal.print(...textTable(columns, rows));
      },
    }),
    delete: command({
      description: 'Delete a client: its secret and tokens stop working. Workspaces and connectors stay.',
      argument: ['<client-id>', 'see "connector-sync applications list"'],
      options: dataOption,
      run: async ({ terminal, clock, cwd, program }, { data }, clientId) => {
        using state = await openStoredState(resolve(cwd, data), clock, { isMade: false });
        if (state?.applications.delete(clientId) !== true) {
          throw usage(
            `There is no client ${clientId} in ${data}. See "${program} applications list --data ${shellWord(data)}".`,
          );
        }
        terminal.printJson({ deleted: clientId });
        terminal.print(`${clientId} is deleted: its secret and tokens stop working.`);
      },
    }),
  },
});

const columns = leftColumns('client id', 'organization', 'made');

import { resolve } from 'node:path';
import { toTheSecond } from '../../output/about-time.ts';
import type { ApplicationFlags } from '../applications.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { textTable } from '../../output/text-table.ts';
import { openApplications } from './open-applications.ts';

export async function runApplicationsList(
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

const columns = [
  { title: 'client id', align: 'left' },
  { title: 'organization', align: 'left' },
  { title: 'made', align: 'left' },
] as const;

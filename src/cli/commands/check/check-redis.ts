import type { RedisFinding } from '../../../jobs/examine-redis.ts';
import type { SettingsWith } from '../../../settings/settings.ts';
import { passed, skipped, type CheckResult } from './check-result.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes } from '../../output/exit-codes.ts';

/**
 * The Redis of the config, where something would use it: a schedule, or rates that are shared through it. Without a
 * schedule nothing fails for want of one.
 */
export async function checkRedis(
  settings: SettingsWith<'redis'>,
  { clock }: Pick<CommandContext, 'clock'>,
): Promise<readonly CheckResult[]> {
  const isScheduled = [...settings.connectors.values()].some(({ schedule }) => schedule !== null);
  if (!settings.redis.isConfigured && !isScheduled) return [];
  // Loaded only here, as everywhere else in the command line.
  const { examineRedis } = await import('../../../jobs/examine-redis.ts');
  const findings = await examineRedis(settings.redis, clock);
  return findings.map((finding) => resultOf(finding, isScheduled));
}

function resultOf({ what, state, detail }: RedisFinding, isScheduled: boolean): CheckResult {
  switch (state) {
    case 'ok':
      return passed(what, detail);
    case 'warning':
      return { what, state, detail, exitCode: exitCodes.ok };
    case 'failed':
      return isScheduled
        ? { what, state, detail, exitCode: exitCodes.failed }
        : skipped(what, `no schedule needs it, and rates are not shared without it: ${detail}`);
  }
}

import { join } from 'node:path';
import type { Secret } from '../../core/secret.ts';
import type { Service } from '../../service/start-service.ts';
import { loadSettings } from '../../settings/load-settings.ts';
import type { Settings } from '../../settings/settings.ts';
import type { CommandContext } from '../command-context.ts';
import { demoConfigText, demoVariables, type DemoSchedule } from './demo-config.ts';
import { registerSecrets } from '../load-config.ts';
import { writePrivateFile } from '../output/write-files.ts';

export interface DemoSettingsOptions {
  readonly directory: string;
  readonly service: Service;
  /** The service's client secret. */
  readonly secret: string;
  readonly schedule: DemoSchedule | null;
  /** Null: the demo uses none. */
  readonly redisUrl: Secret | null;
}

/** Through a config file of its own, as any other sync: what the demo shows is what the program does. */
export async function demoSettings(
  context: CommandContext,
  { directory, service, secret, schedule, redisUrl }: DemoSettingsOptions,
): Promise<Settings> {
  const file = join(directory, 'connector-sync.yaml');
  await writePrivateFile(file, demoConfigText(schedule), false);
  const env = {
    ...context.env,
    [demoVariables.url]: service.url,
    [demoVariables.secret]: secret,
    ...(redisUrl === null ? {} : { REDIS_URL: redisUrl.reveal() }),
  };
  const settings = loadSettings({ file, env });
  registerSecrets(settings, context);
  return settings;
}

import type { Command } from 'commander';
import type { Enter } from '../command-context.ts';
import { addPublishSchema } from './publish/schema.ts';

export function addPublish(publish: Command, enter: Enter): void {
  addPublishSchema(publish, enter);
}

export { type Agent, defineAgent } from './agent/define-agent.ts';
export type { Task } from './agent/task.ts';
export type { Config } from './cli/config.ts';
export { defineConfig } from './cli/define-config.ts';

import { paymentAction } from './payment-action.ts';

// An executor in a process of its own, for tests that kill it: execute-payment.ts URL KEY
const [url = '', key = ''] = process.argv.slice(2);
const context = { key, signal: AbortSignal.timeout(60_000) };
const args = { account: 'a1', amount: 82_000 };
const action = paymentAction(url);
const precondition = await action.precondition(args, context);
if (!precondition.holds) throw new Error(precondition.why);
await action.execute(args, precondition.before, context);

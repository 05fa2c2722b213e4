// In agentic loop:
// 1. onIntake: modify/validate the incoming request
data = await hookManager.execute('onIntake', ctx, requestData);

// 2. onContextAssembled: modify the assembled context (prompt rewriting)
assembledContext = await hookManager.execute('onContextAssembled', ctx, assembledContext);

// 3. onModelResponse: filter/modify model response before tool execution
modelResponse = await hookManager.execute('onModelResponse', ctx, modelResponse);

// 4. onToolResult: transform/audit tool results
toolResult = await hookManager.execute('onToolResult', ctx, toolResult);

// 5. onTurnComplete: side effects (notifications, analytics)
await hookManager.execute('onTurnComplete', ctx, turnSummary);
